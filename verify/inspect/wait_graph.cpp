#include "verify/inspect/wait_graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <deque>
#include <map>
#include <utility>

namespace verify {

namespace {

class GraphBuilder {
 public:
  GraphBuilder(const Job& job, const Progresses& progresses, const Lags& lags)
      : job_(job), progresses_(progresses), lags_(lags) {
    graph_.world = static_cast<std::size_t>(job.world_size);
    for (int rank = 0; rank < job.world_size; ++rank) graph_.is_unknown.push_back(is_unknown(rank));
  }

  WaitGraph build() {
    for (const std::size_t dump : job_.dumps()) add_front(dump);
    for (HoldingCall& call : graph_.calls) find_awaited(call);
    for (const std::size_t dump : job_.dumps()) add_sends_behind(dump);
    hold_matched_messages();
    connect();
    return std::move(graph_);
  }

 private:
  bool is_unknown(int rank) const {
    const auto dump = job_.dump_of(rank);
    if (!dump) return true;
    return job_.recordings[*dump].is_truncated && progresses_.of(*dump).front.empty();
  }

  void add_front(std::size_t dump) {
    const PendingCalls& pending = progresses_.of(dump);
    std::vector<std::size_t>& own = graph_.fronts.emplace_back();
    for (const JobCall& call : pending.front) {
      if (call.is_collective()) {
        own.push_back(joined(call.id(), dump, static_cast<std::int64_t>(call.index())));
      } else {
        own.push_back(graph_.calls.size());
        graph_.calls.push_back(holding_call_of(call));
      }
    }
    if (!pending.front.empty()) return;
    for (const CollectiveId& id : pending.lost) own.push_back(joined(id, dump, -1));
  }

  /// Adds a rank to the ranks that a collective holds, and returns the call.
  std::size_t joined(const CollectiveId& id, std::size_t dump, std::int64_t index) {
    const auto [found, is_new] = collectives_.try_emplace(id, graph_.calls.size());
    if (is_new)
      graph_.calls.push_back({.group = id.group, .sequence = id.sequence, .dump = dump, .call = index});
    HoldingCall& call = graph_.calls[found->second];
    const int rank = job_.rank_of(dump);
    if (call.waiting.empty() || call.waiting.back() != rank) call.waiting.push_back(rank);
    if (call.call < 0 && index >= 0) {
      call.dump = dump;
      call.call = index;
    }
    return found->second;
  }

  void add_member(int member, HoldingCall& call) const {
    const auto dump = job_.dump_of(member);
    const bool waits = std::ranges::binary_search(call.waiting, member);
    if (graph_.is_unknown[static_cast<std::size_t>(member)] && !waits) {
      // The dump of a rank that was written early may show that the rank has come.
      if (!dump || !progresses_.has_issued(*dump, call.id())) call.absent.push_back(member);
      return;
    }
    const bool others_wait = call.waiting.size() > 1 || call.waiting.front() != member;
    const bool is_broken = lags_[*dump] && progresses_.is_pending(*dump, call.id()) && others_wait;
    const bool is_there = waits || progresses_.has_completed(*dump, call.id());
    if (is_there && !waits) call.completed.push_back(member);
    if (is_broken || !is_there) call.awaited.push_back(member);
  }

  void find_awaited(HoldingCall& call) {
    if (call.is_message) return find_peer(call);
    for (const int member : job_.groups[call.group].members) add_member(member, call);
    // Members may stand in another order in their group.
    for (std::vector<int>* const ranks : {&call.absent, &call.completed, &call.awaited})
      std::ranges::sort(*ranks);
  }

  /// A message whose peer is at the other half, in a batch, waits for the peer all the same, where the peer
  /// is held by another message of that batch, and nothing else explains why its own rank is held.
  void hold_matched_messages() {
    for (bool any = true; any;) {
      any = false;
      std::vector<bool> is_held;  // by dump
      for (const std::vector<std::size_t>& front : graph_.fronts)
        is_held.push_back(std::ranges::any_of(front, [&](std::size_t call) {
          return graph_.calls[call].is_message && graph_.calls[call].awaits();
        }));
      for (HoldingCall& call : graph_.calls) {
        if (!call.is_message || call.awaits() || is_held[call.dump] || call.peer < 0) continue;
        const auto there = job_.dump_of(call.peer);
        if (!there || !is_held[*there] || has_completed_half(call)) continue;
        if (std::ranges::none_of(graph_.fronts[*there], [&](std::size_t other) {
              return graph_.calls[other].is_message &&
                     recorded(call).is_other_half_of(recorded(graph_.calls[other]));
            }))
          continue;
        call.awaited.push_back(call.peer);
        any = true;
      }
    }
  }

  /// A send after which the rank went on holds it all the same where nothing else explains why it is held.
  void add_sends_behind(std::size_t dump) {
    std::vector<std::size_t>& own = graph_.fronts[dump];
    const bool is_explained =
        std::ranges::any_of(own, [&](std::size_t call) { return graph_.calls[call].awaits(); });
    const PendingCalls& pending = progresses_.of(dump);
    if (is_explained || own.empty() || pending.front.empty()) return;
    for (const JobCall& call : pending.calls) {
      if (call.index() >= pending.front.front().index()) break;
      own.push_back(graph_.calls.size());
      graph_.calls.push_back(holding_call_of(call));
      graph_.calls.back().is_message = true;
      graph_.calls.back().sequence = call->p2p_sequence;
      find_peer(graph_.calls.back());
    }
  }

  JobCall recorded(const HoldingCall& call) const { return job_.call_at(call.dump, call.call); }

  /// Whether the peer of a message has completed its half: then it does not wait for that of the message,
  /// whatever it is held by now.
  bool has_completed_half(const HoldingCall& call) const {
    const auto dump = job_.dump_of(call.peer);
    return dump && progresses_.messages().has_completed_half(*dump, recorded(call));
  }

  void find_peer(HoldingCall& call) {
    const JobCall own = recorded(call);
    const bool receives = own.operation().kind == Operation::Kind::recv;
    const int peer = call.peer = own.peer();
    if (peer < 0 || has_completed_half(call)) return;
    if (graph_.is_unknown[static_cast<std::size_t>(peer)]) {
      call.absent.push_back(peer);
      return;
    }
    const PendingCalls& pending = progresses_.of(*job_.dump_of(peer));
    // A send that does not hold its rank is under way, if nothing but its own earlier ones holds the device.
    const auto is_first = [&](const JobCall& one) {
      return std::ranges::none_of(pending.calls, [&](const JobCall& earlier) {
        return earlier.index() < one.index() && !own.is_other_half_of(earlier);
      });
    };
    const auto is_there = [&](const JobCall& one) {
      return pending.front.empty() ||
             (receives && one.index() < pending.front.front().index() && is_first(one)) ||
             std::ranges::find(pending.front, one) != pending.front.end();
    };
    const bool waits_there = std::ranges::any_of(
        pending.calls, [&](const JobCall& one) { return own.is_other_half_of(one) && is_there(one); });
    if (lags_[*job_.dump_of(peer)] || !pending.lost.empty() || !waits_there) call.awaited.push_back(peer);
  }

  void connect() {
    graph_.edges.resize(graph_.node_of(graph_.calls.size()));
    graph_.is_awaited.resize(graph_.world);
    for (const std::size_t dump : job_.dumps()) {
      if (lags_[dump]) continue;  // nothing that it waits for explains it
      const std::vector<std::size_t>& front = graph_.fronts[dump];
      // What else is pending does not hold the rank where a message waits for somebody.
      const bool any_awaits = std::ranges::any_of(front, [&](std::size_t call) {
        return graph_.calls[call].is_message && graph_.calls[call].awaits();
      });
      for (const std::size_t call : front) {
        if (!any_awaits || graph_.calls[call].awaits())
          graph_.edges[static_cast<std::size_t>(job_.rank_of(dump))].push_back(graph_.node_of(call));
      }
    }
    for (std::size_t call = 0; call < graph_.calls.size(); ++call) {
      for (const int rank : graph_.calls[call].targets()) {
        graph_.edges[graph_.node_of(call)].push_back(static_cast<std::size_t>(rank));
        graph_.is_awaited[static_cast<std::size_t>(rank)] = true;
      }
    }
  }

  const Job& job_;
  const Progresses& progresses_;
  const Lags& lags_;
  WaitGraph graph_;
  std::map<CollectiveId, std::size_t> collectives_;  // index into the graph's calls
};

}  // namespace

std::vector<std::vector<std::size_t>> WaitGraph::callers() const {
  std::vector<std::vector<std::size_t>> found(world);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    for (const std::size_t rank : edges[node_of(call)]) found[rank].push_back(call);
  }
  return found;
}

std::vector<bool> WaitGraph::waiting_for(const std::vector<int>& ranks) const {
  std::vector<bool> waits(world);
  std::vector<int> next = ranks;
  for (const int rank : next) waits[static_cast<std::size_t>(rank)] = true;
  const auto waiting_calls = callers();
  while (!next.empty()) {
    const auto rank = static_cast<std::size_t>(next.back());
    next.pop_back();
    for (const std::size_t call : waiting_calls[rank]) {
      for (const int other : calls[call].waiting) {
        if (waits[static_cast<std::size_t>(other)]) continue;
        waits[static_cast<std::size_t>(other)] = true;
        next.push_back(other);
      }
    }
  }
  return waits;
}

WaitGraph wait_graph_of(const Job& job, const Progresses& progresses, const Lags& lags) {
  return GraphBuilder(job, progresses, lags).build();
}

std::vector<std::vector<std::size_t>> final_components(const Edges& edges, bool only_circles) {
  const auto counts = [&](const auto& component) { return !only_circles || component.size() > 1; };
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(edges.size());
  for (std::size_t node = 0; node < edges.size(); ++node)
    for (const std::size_t to : edges[node]) boost::add_edge(node, to, graph);
  std::vector<std::size_t> component(edges.size());
  const std::size_t number = boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  std::vector<std::vector<std::size_t>> nodes(number);
  for (std::size_t node = 0; node < edges.size(); ++node) nodes[component[node]].push_back(node);
  std::vector<bool> leads_to_one(number);  // itself, or another one that it reaches
  std::vector<std::vector<std::size_t>> found;
  for (std::size_t one = 0; one < number; ++one) {  // a component has a larger number than what it reaches
    bool is_end = true;
    for (const std::size_t node : nodes[one])
      for (const std::size_t to : edges[node])
        is_end = is_end && (component[to] == one || !leads_to_one[component[to]]);
    leads_to_one[one] = !is_end || counts(nodes[one]);
    if (is_end && counts(nodes[one])) found.push_back(nodes[one]);
  }
  std::ranges::sort(found);
  return found;
}

std::vector<int> shortest_circle(const Edges& edges, const std::vector<std::size_t>& component,
                                 std::size_t ranks) {
  constexpr std::size_t kMostBeginnings = 64;  // of circles that are compared
  std::vector<int> best;
  std::size_t begun = 0;
  for (const std::size_t first : component) {
    if (first >= ranks || begun++ == kMostBeginnings) break;
    std::map<std::size_t, std::size_t> before;  // by node, the node from which it was reached
    std::deque<std::size_t> next = {first};
    while (!next.empty() && !before.contains(first)) {
      const std::size_t node = next.front();
      next.pop_front();
      for (const std::size_t to : edges[node]) {
        if (before.try_emplace(to, node).second) next.push_back(to);
      }
    }
    if (!before.contains(first)) continue;
    std::vector<int> circle;
    std::size_t node = first;
    do {
      if (node < ranks) circle.push_back(static_cast<int>(node));
      node = before.at(node);
    } while (node != first);
    if (best.empty() || circle.size() < best.size()) best = std::move(circle);
  }
  std::ranges::sort(best);
  return best;
}

}  // namespace verify
