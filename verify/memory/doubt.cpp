#include "verify/memory/doubt.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "verify/megatron_rules/run_account.h"

namespace verify {

namespace {

/// What an argument may change of the memory of a rank.
enum class Effect { anything, moves_away, adds_to_step, changes_copies };

/// Parts of names: of arguments that allocate something in a step and take nothing away, and of those about
/// formats of 8 and 4 bits and about fully sharded data parallelism.
constexpr std::pair<std::string_view, Effect> kEffects[] = {
    {"cuda-graph", Effect::adds_to_step},
    {"delay-wgrad-compute", Effect::adds_to_step},
    {"fp32-residual-connection", Effect::adds_to_step},
    {"moe-apply-probs-on-input", Effect::adds_to_step},
    {"moe-enable-deepep", Effect::adds_to_step},
    {"moe-flex-dispatcher-backend", Effect::adds_to_step},
    {"moe-input-jitter-eps", Effect::adds_to_step},
    {"moe-token-dispatcher-type", Effect::adds_to_step},
    {"overlap-moe-expert-parallel-comm", Effect::adds_to_step},
    {"tp-comm-overlap", Effect::adds_to_step},
    {"use-nccl-ub", Effect::adds_to_step},
    {"fp8", Effect::changes_copies},
    {"fp4", Effect::changes_copies},
    {"fsdp", Effect::changes_copies},
    {"data-parallel-sharding", Effect::changes_copies}};

Effect effect_of(const AccountedArgument& argument) {
  if (holds_less(argument)) return Effect::moves_away;
  const auto* const found = std::ranges::find_if(
      kEffects, [&](const auto& row) { return argument.name.find(row.first) != std::string::npos; });
  return found == std::end(kEffects) ? Effect::anything : found->second;
}

/// Returns the most bytes that an argument may add to a stage.
std::int64_t most_added(Effect effect, const StageMemory& stage) {
  if (effect == Effect::anything) return std::numeric_limits<std::int64_t>::max();
  if (effect == Effect::moves_away) return 0;
  return stage.passing_bytes() + (effect == Effect::changes_copies ? stage.parameters : 0);
}

}  // namespace

std::vector<AccountedArgument> doubtful_arguments(const std::vector<AccountedArgument>& uncounted,
                                                  const StageMemory& stage, std::int64_t left) {
  std::vector<AccountedArgument> doubtful;
  std::int64_t room = left;
  std::set<std::string_view> purposes;
  for (const AccountedArgument& argument : uncounted) {
    const Effect effect = effect_of(argument);
    const std::int64_t added = most_added(effect, stage);
    if (left >= 0 ? added > 0 : effect != Effect::adds_to_step) doubtful.push_back(argument);
    if (purposes.insert(argument.sentence).second) room = added > room ? -1 : room - added;
  }
  if (left >= 0 && room >= 0) doubtful.clear();
  return doubtful;
}

}  // namespace verify
