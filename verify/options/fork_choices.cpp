#include "verify/options/fork_choices.h"

#include <algorithm>
#include <iterator>

namespace verify {

const ForkChoice* find_fork_choice(std::string_view option, std::string_view word) {
  static constexpr ForkChoice kChoices[] = {
      {"moe-router-load-balancing-type", "noaux_tc", "MindSpeed-LLM",
       "--moe-router-load-balancing-type none, with --moe-router-enable-expert-bias"},
      {"moe-router-load-balancing-type", "group_limited_greedy", "MindSpeed-LLM",
       "--moe-router-load-balancing-type aux_loss, with --moe-router-num-groups and --moe-router-group-topk"},
      {"moe-router-load-balancing-type", "softmax_topk", "MindSpeed-LLM",
       "--moe-router-load-balancing-type none"},
      {"moe-token-dispatcher-type", "alltoall_seq", "MindSpeed-LLM and older versions of Megatron-LM",
       "--moe-token-dispatcher-type alltoall"},
      {"optimizer", "ademamix", "the fork of swiss-ai", "--optimizer adam"},
      {"optimizer", "fusedadamw", "the fork of HabanaAI", "--optimizer adam"},
      {"optimizer", "hybridadam", "Pai-Megatron-Patch", "--optimizer adam, with --optimizer-cpu-offload"},
      {"position-embedding-type", "alibi", "Megatron-DeepSpeed", "--position-embedding-type rope"},
      {"position-embedding-type", "rotary", "Megatron-DeepSpeed", "--position-embedding-type rope"},
      {"ckpt-format", "zarr", "older versions of Megatron-LM", "--ckpt-format torch_dist"},
  };
  const auto* found = std::ranges::find_if(
      kChoices, [&](const ForkChoice& choice) { return choice.option == option && choice.word == word; });
  return found == std::end(kChoices) ? nullptr : found;
}

}  // namespace verify
