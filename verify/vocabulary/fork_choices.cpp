#include "verify/vocabulary/fork_choices.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string_view>

#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

struct ForkChoice {
  const char* option;
  const char* word;
  const char* known_to;
  const char* instead;  // the options with which Megatron-LM comes nearest
};

/// Returns the row of a value; null where no fork is known to take it.
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
      {"position-embedding-type", "alibi", "Megatron-DeepSpeed", "--position-embedding-type rope"},
      {"position-embedding-type", "rotary", "Megatron-DeepSpeed", "--position-embedding-type rope"},
      {"ckpt-format", "zarr", "older versions of Megatron-LM", "--ckpt-format torch_dist"},
  };
  const auto* found = std::ranges::find_if(
      kChoices, [&](const ForkChoice& choice) { return choice.option == option && choice.word == word; });
  return found == std::end(kChoices) ? nullptr : found;
}

}  // namespace

ChoiceHelp help_with_choice(const std::string& option, const std::string& word,
                            const std::vector<std::string>& choices) {
  if (const ForkChoice* fork = find_fork_choice(option, word))
    return {fmt::format("; this one is known to {} alone", fork->known_to), fork->instead};
  const std::string nearest = nearest_name(word, choices);
  return {"", fmt::format("--{} {}", option, nearest.empty() ? choices.front() : nearest)};
}

}  // namespace verify
