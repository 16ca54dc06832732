#include "verify/megatron_rules/memory_arguments.h"

#include <algorithm>
#include <string_view>

#include "verify/vocabulary/option_table.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

/// Arguments without an option of their own whose memory is counted, or which have no memory.
constexpr std::string_view kCountedNames[] = {"squared-relu",
                                              "openai-gelu",
                                              "quick-geglu",
                                              "moe-layer-recompute",
                                              "position-embedding-type",
                                              "softmax-type",
                                              "attention-scale",
                                              "enable-experimental",
                                              "step-batch-size-schedule",
                                              "rampup-batch-size",
                                              "decrease-batch-size-if-needed"};

/// Arguments that move what the optimizer or a layer holds to the host, and those that say how much of it.
constexpr std::string_view kMovedNames[] = {
    "cpu-offloading",
    "cpu-offloading-num-layers",
    "fine-grained-activation-offloading",
    "no-pin-cpu-grads",
    "no-pin-cpu-params",
    "offload-modules",
    "offload-optimizer-states",
    "optimizer-cpu-offload",
    "optimizer-offload-fraction",
    "overlap-cpu-optimizer-d2h-h2d",
    "use-torch-optimizer-for-cpu-offload",
};

/// An argument that allocates memory that is not counted, except with these values.
struct UncountedRow {
  std::string_view name;
  std::vector<std::string_view> plain;
  const char* sentence;
};

const std::vector<UncountedRow>& uncounted_rows() {
  static const std::vector<UncountedRow> rows = {
      {"cuda-graph-impl", {"none"}, "the memory pools of CUDA graphs are not counted"},
      {"enable-cuda-graph", {}, "the memory pools of CUDA graphs are not counted"},
      {"external-cuda-graph", {}, "the memory pools of CUDA graphs are not counted"},
      {"delay-wgrad-compute", {}, "inputs that are kept for a later weight gradient are not counted"},
      {"tp-comm-overlap", {}, "the buffers of Transformer Engine's overlapped communication are not counted"},
      {"overlap-moe-expert-parallel-comm", {}, "the buffers of a second stream of experts are not counted"},
      {"fp32-residual-connection",
       {},
       "hidden states that are in fp32 between layers and stages are not counted"},
      {"use-nccl-ub", {}, "buffers that NCCL registers are not counted"},
      {"moe-token-dispatcher-type",
       {"allgather", "alltoall"},
       "the buffers of this dispatcher are not counted"},
      {"moe-apply-probs-on-input",
       {},
       "rows of experts, before their probabilities multiply them, are not counted"},
      {"moe-input-jitter-eps", {}, "the noise of a router's input, and its product, are not counted"},
      {"num-distributed-optimizer-instances",
       {"1"},
       "the largest moment of several instances of the optimizer is not counted"},
  };
  return rows;
}

}  // namespace

bool is_option_of_memory(const std::string& name) {
  const OptionInfo* option = find_option(name);
  return option != nullptr && option->section == kMemory;
}

bool has_counted_memory(const AccountedArgument& argument) {
  return argument.unproved == Unproved::nothing || is_option_of_memory(argument.name) ||
         std::ranges::find(kCountedNames, argument.name) != std::end(kCountedNames);
}

bool holds_less(const AccountedArgument& argument) {
  return std::ranges::find(kMovedNames, argument.name) != std::end(kMovedNames);
}

std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account) {
  std::vector<AccountedArgument> uncounted;
  for (const AccountedArgument& argument : account.not_modelled) {
    if (!has_counted_memory(argument)) uncounted.push_back(argument);
  }
  for (const UncountedRow& row : uncounted_rows()) {
    const bool is_there = std::ranges::any_of(
        uncounted, [&](const AccountedArgument& argument) { return argument.name == row.name; });
    if (is_there || !values.has(row.name)) continue;
    const std::string value = values.text(row.name);
    if (std::ranges::find(row.plain, value) != row.plain.end() || value == "false") continue;
    uncounted.push_back({.name = std::string(row.name),
                         .value = value,
                         .line = values.all().find(row.name)->second.line,
                         .sentence = row.sentence,
                         .unproved = Unproved::memory});
  }
  std::ranges::sort(uncounted, {}, &AccountedArgument::name);
  return uncounted;
}

}  // namespace verify
