#include "verify/inspect/holding_call.h"

#include <fmt/format.h>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"

namespace verify {

HoldingCall holding_call_of(const JobCall& call) {
  const bool is_message = !call.is_collective();
  return {.group = call.group_id(),
          .sequence = is_message ? call->p2p_sequence : call->sequence,
          .is_message = is_message,
          .dump = call.dump,
          .call = static_cast<std::int64_t>(call.index()),
          .waiting = {call.rank()}};
}

std::string call_words(const Job& job, const HoldingCall& call) {
  const std::string group = group_words(job.groups[call.group]);
  const auto recorded = call.recorded_in(job);
  if (!recorded) return fmt::format("call {} of {}", call.sequence, group);
  const std::string name = sim::printable_text(recorded->recording().operation(*recorded->recorded));
  return call.is_message ? fmt::format("{} of {}", name, group)
                         : fmt::format("{}, call {} of {}", name, call.sequence, group);
}

std::string call_words(const JobCall& call) { return call_words(*call.job, holding_call_of(call)); }

std::string stuck_words(const Job& job, const HoldingCall& call) {
  return sentence(call.completed.empty() ? "stuck_nowhere" : "stuck_for_some",
                  {{"ranks", call.waiting}, {"call", call_words(job, call)}, {"others", call.completed}});
}

std::string line_of(const Job& job, const HoldingCall& call) {
  const auto recorded = call.recorded_in(job);
  return recorded ? line_of(*recorded) : "";
}

std::string group_words(const JobGroup& group) {
  if (group.is_default()) return "the default group";
  const std::string ranks = ranks_words(group.members);
  if (!group.kind.empty()) return fmt::format("the {} group of {}", group.kind, ranks);
  return fmt::format("group '{}' of {}", sim::printable_text(group.name.substr(0, 40)), ranks);
}

}  // namespace verify
