#include "verify/memory/doubt.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "verify/megatron_rules/memory_arguments.h"

namespace verify {

namespace {

/// What an argument may change of the memory of a rank.
enum class Effect { moves_away, adds_to_step, changes_copies, anything };

/// Arguments that allocate something in a step, and take nothing away.
constexpr std::string_view kOfStep[] = {"cuda-graph-impl",
                                        "delay-wgrad-compute",
                                        "enable-cuda-graph",
                                        "external-cuda-graph",
                                        "fp32-residual-connection",
                                        "moe-apply-probs-on-input",
                                        "moe-enable-deepep",
                                        "moe-flex-dispatcher-backend",
                                        "moe-input-jitter-eps",
                                        "moe-token-dispatcher-type",
                                        "overlap-moe-expert-parallel-comm",
                                        "tp-comm-overlap",
                                        "use-nccl-ub"};

/// Parts of the names of arguments about formats of 8 and 4 bits, and about fully sharded data parallelism.
constexpr std::string_view kOfCopies[] = {"fp8", "fp4", "fsdp", "data-parallel-sharding", "in-bf16"};

Effect effect_of(const AccountedArgument& argument) {
  const std::string_view name = argument.name;
  if (holds_less(argument)) return Effect::moves_away;
  if (std::ranges::find(kOfStep, name) != std::end(kOfStep)) return Effect::adds_to_step;
  const bool is_of_copies = std::ranges::any_of(
      kOfCopies, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
  return is_of_copies ? Effect::changes_copies : Effect::anything;
}

/// Returns the most bytes that an argument may add to a stage.
std::int64_t most_added(Effect effect, const StageMemory& stage) {
  switch (effect) {
    case Effect::moves_away:
      return 0;
    case Effect::adds_to_step:
      return stage.passing_bytes();
    case Effect::changes_copies:
      return stage.passing_bytes() + stage.parameters;
    case Effect::anything:
      break;
  }
  return std::numeric_limits<std::int64_t>::max();
}

bool may_take_away(Effect effect) { return effect != Effect::adds_to_step; }

}  // namespace

std::vector<AccountedArgument> doubtful_arguments(const std::vector<AccountedArgument>& uncounted,
                                                  const StageMemory& stage, std::int64_t left) {
  std::vector<AccountedArgument> doubtful;
  std::int64_t room = left;
  std::set<std::string_view> purposes;
  for (const AccountedArgument& argument : uncounted) {
    const Effect effect = effect_of(argument);
    const std::int64_t added = most_added(effect, stage);
    if (left >= 0 ? added > 0 : may_take_away(effect)) doubtful.push_back(argument);
    if (purposes.insert(argument.sentence).second) room = added > room ? -1 : room - added;
  }
  if (left >= 0 && room >= 0) doubtful.clear();
  return doubtful;
}

}  // namespace verify
