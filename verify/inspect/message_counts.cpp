#include "verify/inspect/message_counts.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace verify {

namespace {

/// Returns how many calls of a group a rank without a pending call has issued, where its dump tells.
std::optional<std::int64_t> calls_of(const Job& job, const Progresses& progresses, int rank,
                                     std::uint32_t group) {
  const int found = job.dump_of_rank[static_cast<std::size_t>(rank)];
  if (found < 0) return std::nullopt;
  const auto dump = static_cast<std::size_t>(found);
  const Recording& recording = job.recordings[dump];
  const PendingCalls& pending = progresses.of(dump);
  if (recording.is_truncated || recording.calls.empty() || !pending.calls.empty() || !pending.lost.empty())
    return std::nullopt;
  for (std::size_t own = 0; own < recording.groups.size(); ++own) {
    if (job.groups_of[dump][own].group != group) continue;
    const RecordedGroup& of_rank = recording.groups[own];
    if (of_rank.operations > 0) return of_rank.last_operation;
    const bool has_calls = job.groups_of[dump][own].last_recorded >= 0;  // without an op_id
    const bool has_lost_calls = recording.calls.front().record_id != 0;
    return has_calls || has_lost_calls ? std::nullopt : std::optional<std::int64_t>(0);
  }
  return std::nullopt;
}

}  // namespace

std::vector<UnmatchedMessages> unmatched_messages(const Job& job, const Progresses& progresses) {
  std::vector<UnmatchedMessages> unmatched;
  for (std::uint32_t group = 0; group < job.groups.size(); ++group) {
    const std::vector<int>& members = job.groups[group].members;
    if (!job.groups[group].has_messages || members.size() != 2) continue;
    const auto first = calls_of(job, progresses, members[0], group);
    const auto second = calls_of(job, progresses, members[1], group);
    if (!first || !second || *first == *second) continue;
    const bool is_first = *first > *second;
    unmatched.push_back({.group = group,
                         .more = is_first ? members[0] : members[1],
                         .fewer = is_first ? members[1] : members[0],
                         .more_messages = std::max(*first, *second),
                         .fewer_messages = std::min(*first, *second)});
  }
  return unmatched;
}

}  // namespace verify
