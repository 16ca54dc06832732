#include "verify/inspect/calls_ahead.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>

#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// Whether the group of another call is of the same kind. Only Megatron's groups have others of their kind.
bool are_alike(const JobGroup& a, const JobGroup& b) {
  return !a.kind.empty() && a.kind == b.kind && a.description == b.description;
}

/// Whether a rank has messages among its pending calls, which are no calls that all ranks make.
bool has_messages(const Job& job, std::size_t dump, const PendingCalls& pending) {
  return std::any_of(pending.calls.begin(), pending.calls.end(), [&](std::uint32_t index) {
    return !job.is_collective(dump, job.recordings[dump].calls[index]);
  });
}

/// Whether every rank without a pending call that is in the group of a call, or in one like it, has made
/// exactly the calls before it, and there are more such ranks than `ahead`, and at least two.
bool others_are_one_behind(const Job& job, const Progresses& progresses, const HoldingCall& call,
                           std::size_t ahead) {
  std::size_t behind = 0;
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    if (!progresses.of(dump).calls.empty()) continue;
    for (const GroupOfRank& own : job.groups_of[dump]) {
      if (own.group == kNoGroup) continue;
      if (own.group != call.group && !are_alike(job.groups[own.group], job.groups[call.group])) continue;
      if (progresses.last_issued(dump, own.group) + 1 != call.sequence) return false;
      ++behind;
    }
  }
  return behind > std::max<std::size_t>(ahead, 1);
}

}  // namespace

std::vector<RankAhead> ranks_ahead(const Job& job, const Progresses& progresses, const WaitGraph& graph) {
  if (std::find(graph.is_unknown.begin(), graph.is_unknown.end(), true) != graph.is_unknown.end()) return {};
  std::size_t waiting = 0;
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    const PendingCalls& pending = progresses.of(dump);
    if (job.recordings[dump].is_truncated || !pending.lost.empty() || has_messages(job, dump, pending))
      return {};
    if (!pending.calls.empty()) ++waiting;
  }
  if (waiting == 0 || 2 * waiting >= job.recordings.size()) return {};
  std::vector<RankAhead> ahead;
  for (const HoldingCall& call : graph.calls) {
    if (call.is_message || call.awaited.empty() || !call.absent.empty()) return {};
    if (call.waiting.size() > call.awaited.size()) return {};  // the others of this group are fewer
    const bool are_idle = std::all_of(call.awaited.begin(), call.awaited.end(), [&](int rank) {
      return progresses.of(static_cast<std::size_t>(job.dump_of_rank[static_cast<std::size_t>(rank)]))
          .calls.empty();
    });
    if (!are_idle || !others_are_one_behind(job, progresses, call, waiting)) return {};
    const bool is_one = call.awaited.size() == 1;
    for (const int rank : call.waiting) {
      const auto dump = static_cast<std::size_t>(job.dump_of_rank[static_cast<std::size_t>(rank)]);
      const std::int64_t issued = std::max(progresses.last_issued(dump, call.group), call.sequence);
      ahead.push_back(
          {rank, fmt::format(
                     "It has issued {} of {}, and {} {} issued {} and {} no pending call: "
                     "it is {} ahead of {}.",
                     counted(issued, "call"), group_words(job.groups[call.group]), ranks_words(call.awaited),
                     is_one ? "has" : "have", call.sequence - 1, is_one ? "has" : "have",
                     issued == call.sequence ? "one call" : counted(issued - call.sequence + 1, "call"),
                     is_one ? "it" : "them")});
    }
  }
  std::sort(ahead.begin(), ahead.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return ahead;
}

}  // namespace verify
