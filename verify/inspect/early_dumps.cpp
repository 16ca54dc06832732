#include "verify/inspect/early_dumps.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace verify {

namespace {

/// A collective that has completed on a rank.
struct Completed {
  std::int64_t sequence = 0;
  int rank = -1;
};

/// Returns the last collective of each group that has completed somewhere and needs all members.
std::vector<Completed> last_completed(const Job& job) {
  std::vector<Completed> last(job.groups.size());
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    const Recording& recording = job.recordings[dump];
    for (const RecordedCall& call : recording.calls) {
      if (call.is_p2p || call.state != CallState::completed) continue;
      const std::uint32_t group = job.group_of(dump, call);
      if (group == kNoGroup || call.sequence <= last[group].sequence) continue;
      const Operation& operation = job.operation(dump, call);
      if (operation.kind == Operation::Kind::collective && operation.backend != "gloo" &&
          operation.name != "all_to_all")
        last[group] = {call.sequence, recording.rank};
    }
  }
  return last;
}

}  // namespace

EarlyDumps early_dumps_of(const Job& job, const Progresses& progresses) {
  EarlyDumps early;
  std::set<int> ranks;
  const std::vector<Completed> last = last_completed(job);
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    for (const GroupOfRank& own : job.groups_of[dump]) {
      if (own.group == kNoGroup) continue;
      const std::int64_t issued = progresses.last_issued(dump, own.group);
      const bool is_known = issued > 0 || job.recordings[dump].is_whole();
      if (!is_known || issued >= last[own.group].sequence) continue;
      if (early.group == kNoGroup) {
        early.group = own.group;
        early.sequence = last[own.group].sequence;
        early.completed_by = last[own.group].rank;
      }
      ranks.insert(job.recordings[dump].rank);
      break;
    }
  }
  for (const int rank : progresses.messages().senders_behind()) ranks.insert(rank);
  early.ranks.assign(ranks.begin(), ranks.end());
  return early;
}

void mark_early_dumps(const EarlyDumps& early, Job& job) {
  if (early.ranks.size() >= job.recordings.size()) return;
  for (const int rank : early.ranks)
    job.is_early[static_cast<std::size_t>(job.dump_of_rank[static_cast<std::size_t>(rank)])] = true;
}

}  // namespace verify
