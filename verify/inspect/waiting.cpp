#include "verify/inspect/waiting.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

namespace {

std::string short_name_of(const JobGroup& group) {
  if (!group.kind.empty()) return group.kind;
  if (group.is_default()) return "the default group";
  return fmt::format("group '{}'", sim::printable_text(group.name.substr(0, 40)));
}

/// Returns "tp and pp"; of many names the first ones, and how many others there are.
std::string words_of_groups(const std::set<std::string>& names) {
  constexpr std::ptrdiff_t kMostNames = 3;
  const std::ptrdiff_t more = std::ssize(names) <= kMostNames ? 0 : std::ssize(names) - kMostNames + 1;
  const auto end = std::next(names.begin(), std::ssize(names) - more);
  return fmt::format("{}{}", fmt::join(names.begin(), end, " and "),
                     more == 0 ? "" : fmt::format(" and {} other groups", more));
}

/// Finds how far from a suspect every call is, and by which kinds of groups the wait spreads.
void spread(const Job& job, WaitGraph& graph, Waiting& waiting) {
  const std::vector<std::vector<std::size_t>> callers = graph.callers();
  std::set<std::string> named;
  std::vector<bool> reached(static_cast<std::size_t>(job.world_size));
  std::vector<int> next;
  for (const int rank : waiting.suspects.all()) {
    reached[static_cast<std::size_t>(rank)] = true;
    next.push_back(rank);
  }
  for (int distance = 1; !next.empty(); ++distance) {
    std::vector<int> ranks;
    std::set<std::string> names;
    for (const int rank : next) {
      for (const std::size_t index : callers[static_cast<std::size_t>(rank)]) {
        HoldingCall& call = graph.calls[index];
        if (call.distance >= 0) continue;
        call.distance = distance;
        bool spreads = false;
        for (const int other : call.waiting) {
          if (reached[static_cast<std::size_t>(other)]) continue;
          reached[static_cast<std::size_t>(other)] = spreads = true;
          ranks.push_back(other);
          ++waiting.waiting_ranks;
        }
        if (spreads) names.insert(short_name_of(job.groups[call.group]));
      }
    }
    std::erase_if(names, [&](const std::string& name) { return !named.insert(name).second; });
    if (!names.empty()) waiting.through.push_back(words_of_groups(names));
    std::ranges::sort(ranks);
    next = std::move(ranks);
  }
}

}  // namespace

const HoldingCall* find_call_of(const Waiting& waiting, int rank) {
  const HoldingCall* found = nullptr;
  for (const HoldingCall& call : waiting.calls) {
    if (!std::ranges::binary_search(call.waiting, rank)) continue;
    if (call.awaits()) return &call;
    if (found == nullptr) found = &call;
  }
  return found;
}

Waiting waiting_of(const Job& job, const Progresses& progresses) {
  WaitGraph graph;
  Waiting waiting;
  Suspects& suspects = waiting.suspects;
  // Only where nobody stands still may an all_to_all that others have completed tell of a device.
  for (const AllToAlls all_to_alls : {AllToAlls::left_out, AllToAlls::taken}) {
    const std::vector<Lag> lags = lags_of(job, progresses, all_to_alls);
    graph = wait_graph_of(job, progresses, lags);
    suspects = suspects_of({job, progresses, lags, graph});
    if (suspects.has_run()) break;
    if (!suspects.ranks.empty() && !suspects.are_stuck() && suspects.seen != Seen::unreceived &&
        suspects.circles.empty())
      break;
  }
  spread(job, graph, waiting);
  std::ranges::stable_sort(graph.calls, [](const HoldingCall& a, const HoldingCall& b) {
    const auto place = [](const HoldingCall& call) {
      return std::tuple(call.distance < 0, call.distance, call.waiting.front());
    };
    return place(a) < place(b);
  });
  waiting.calls = std::move(graph.calls);
  for (const std::size_t dump : job.dumps()) {
    const PendingCalls& pending = progresses.of(dump);
    const int rank = job.rank_of(dump);
    if (pending.any()) waiting.held.push_back(rank);
    if (progresses.is_idle(dump)) waiting.idle.push_back(rank);
    if (progresses.may_have_lost(dump) || !pending.lost.empty()) waiting.lost.push_back(rank);
  }
  return waiting;
}

}  // namespace verify
