#include "verify/inspect/running_job.h"

#include <algorithm>

#include "verify/inspect/stuck_calls.h"

namespace verify {

namespace {

/// Returns, by rank, whether it is one of these ranks or waits for one, directly or by others.
std::vector<bool> waiting_for(const Evidence& know, const std::vector<int>& ranks) {
  std::vector<bool> waits(know.graph.world);
  std::vector<int> next = ranks;
  for (const int rank : next) waits[static_cast<std::size_t>(rank)] = true;
  const auto callers = know.graph.callers();
  while (!next.empty()) {
    const auto rank = static_cast<std::size_t>(next.back());
    next.pop_back();
    for (const std::size_t call : callers[rank]) {
      for (const int other : know.graph.calls[call].waiting) {
        if (waits[static_cast<std::size_t>(other)]) continue;
        waits[static_cast<std::size_t>(other)] = true;
        next.push_back(other);
      }
    }
  }
  return waits;
}

/// Whether the dump of a rank ends in the middle: it may have more calls than it shows.
bool is_cut(const Evidence& know, int rank) {
  const Recording* const own = know.job.find_recording(rank);
  return own != nullptr && own->is_truncated;
}

}  // namespace

SignsOfRunning signs_of_running(const Evidence& know, const std::vector<int>& suspects,
                                const std::vector<std::vector<std::size_t>>& components,
                                const std::vector<int>& early_roots) {
  const std::vector<bool> waits = waiting_for(know, suspects);
  const auto waits_for_suspect = [&](int rank) { return waits[static_cast<std::size_t>(rank)]; };
  SignsOfRunning signs;
  for (const HoldingCall* const call : collectives_that_can_end(know, components))
    if (std::ranges::none_of(call->waiting, waits_for_suspect)) ++signs.collectives;
  for (const HoldingCall& call : know.graph.calls) {
    if (std::ranges::any_of(call.waiting, waits_for_suspect)) continue;
    for (const int rank : call.targets())
      if (std::ranges::find(early_roots, rank) != early_roots.end() && !is_cut(know, rank))
        signs.early.push_back(rank);
  }
  std::ranges::sort(signs.early);
  signs.early.erase(std::ranges::unique(signs.early).begin(), signs.early.end());
  return signs;
}

bool do_all_wait_for(const Evidence& know, const std::vector<int>& ranks) {
  if (std::ranges::any_of(ranks, [&](int rank) { return is_cut(know, rank); })) return true;
  const std::vector<bool> waits = waiting_for(know, ranks);
  std::size_t others = 0;
  for (const Recording& recording : know.job.recordings) {
    if (recording.is_truncated || know.is_early(recording.rank)) continue;
    if (!waits[static_cast<std::size_t>(recording.rank)]) return false;
    ++others;
  }
  return others > ranks.size();
}

}  // namespace verify
