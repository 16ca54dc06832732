#include "verify/inspect/holding_call.h"

#include <fmt/format.h>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"

namespace verify {

std::string call_words(const Job& job, const HoldingCall& call) {
  const JobGroup& group = job.groups[call.group];
  if (call.call < 0) return fmt::format("call {} of {}", call.sequence, group_words(group));
  const Recording& recording = job.recordings[call.dump];
  const std::string name =
      sim::printable_text(recording.operation(recording.calls[static_cast<std::size_t>(call.call)]));
  if (call.is_message) return fmt::format("{} of {}", name, group_words(group));
  return fmt::format("{}, call {} of {}", name, call.sequence, group_words(group));
}

HoldingCall holding_call_of(const Job& job, std::size_t dump, const RecordedCall& call) {
  const Recording& recording = job.recordings[dump];
  const bool is_message = !job.is_collective(dump, call);
  return {.group = job.group_of(dump, call),
          .sequence = is_message ? call.p2p_sequence : call.sequence,
          .is_message = is_message,
          .dump = dump,
          .call = &call - recording.calls.data(),
          .waiting = {recording.rank}};
}

std::string stuck_words(const Job& job, const HoldingCall& call) {
  const std::string words = call_words(job, call);
  if (call.completed.empty())
    return fmt::format("Every member has come to {}, and none has completed it.", words);
  return fmt::format("{} {} not completed {}, which {} {} completed.", capital(ranks_words(call.waiting)),
                     call.waiting.size() == 1 ? "has" : "have", words, ranks_words(call.completed),
                     call.completed.size() == 1 ? "has" : "have");
}

std::string group_words(const JobGroup& group) {
  const std::string name = sim::printable_text(group.name.substr(0, 40));
  if (group.description == "default_pg") return "the default group";
  std::string ranks = ranks_words(group.members);
  if (!group.kind.empty()) return fmt::format("the {} group of {}", group.kind, ranks);
  return fmt::format("group '{}' of {}", name, ranks);
}

}  // namespace verify
