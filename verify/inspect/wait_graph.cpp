#include "verify/inspect/wait_graph.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace verify {

namespace {

class GraphBuilder {
 public:
  GraphBuilder(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags)
      : job_(job), progresses_(progresses), lags_(lags) {
    graph_.world = static_cast<std::size_t>(job.world_size);
    for (int rank = 0; rank < job.world_size; ++rank) graph_.is_unknown.push_back(is_unknown(rank));
  }

  WaitGraph build() {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) add_front(dump);
    for (HoldingCall& call : graph_.calls) find_awaited(call);
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) add_sends_behind(dump);
    hold_matched_messages();
    connect();
    return std::move(graph_);
  }

 private:
  const Recording& recording(std::size_t dump) const { return job_.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  int dump_of(int rank) const { return job_.dump_of_rank[static_cast<std::size_t>(rank)]; }
  bool is_unknown(int rank) const {
    if (dump_of(rank) < 0) return true;
    const auto dump = static_cast<std::size_t>(dump_of(rank));
    return (recording(dump).is_truncated || job_.is_early[dump]) && progresses_.of(dump).front.empty();
  }

  void add_front(std::size_t dump) {
    const PendingCalls& pending = progresses_.of(dump);
    std::vector<std::size_t>& own = graph_.fronts.emplace_back();
    for (const std::uint32_t index : pending.front) {
      const RecordedCall& call = recording(dump).calls[index];
      if (job_.is_collective(dump, call)) {
        own.push_back(joined({job_.group_of(dump, call), call.sequence}, dump, index));
        continue;
      }
      own.push_back(graph_.calls.size());
      graph_.calls.push_back(message(dump, index));
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
    if (call.waiting.empty() || call.waiting.back() != rank_of(dump)) call.waiting.push_back(rank_of(dump));
    if (call.call < 0 && index >= 0) {
      call.dump = dump;
      call.call = index;
    }
    return found->second;
  }

  void add_member(int member, const CollectiveId& id, HoldingCall& call) const {
    const auto dump = static_cast<std::size_t>(dump_of(member));
    const bool waits = std::ranges::binary_search(call.waiting, member);
    if (graph_.is_unknown[static_cast<std::size_t>(member)] && !waits) {
      // The dump of a rank that was written early may show that the rank has come.
      if (dump_of(member) < 0 || !progresses_.has_issued(dump, id)) call.absent.push_back(member);
      return;
    }
    const bool others_wait = call.waiting.size() > 1 || call.waiting.front() != member;
    const bool is_broken = lags_[dump].is_device && progresses_.is_pending(dump, id) && others_wait;
    const bool is_there = waits || progresses_.has_completed(dump, id);
    if (is_there && !waits) call.completed.push_back(member);
    if (is_broken || !is_there) call.awaited.push_back(member);
  }

  void find_awaited(HoldingCall& call) {
    if (call.is_message) return find_peer(call);
    const CollectiveId id{call.group, call.sequence};
    for (const int member : job_.groups[call.group].members) add_member(member, id, call);
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
        if (!call.is_message || call.awaits() || is_held[call.dump]) continue;
        if (call.peer < 0 || dump_of(call.peer) < 0 || has_completed_half(call, call.peer)) continue;
        const auto there = static_cast<std::size_t>(dump_of(call.peer));
        const bool is_of_batch = std::ranges::any_of(
            graph_.fronts[there], [&](std::size_t other) { return are_halves(call, graph_.calls[other]); });
        if (!is_held[there] || !is_of_batch) continue;
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
    if (is_explained || own.empty()) return;
    const PendingCalls& pending = progresses_.of(dump);
    for (const std::uint32_t index : pending.calls) {
      if (pending.front.empty() || index >= pending.front.front()) break;
      own.push_back(graph_.calls.size());
      graph_.calls.push_back(message(dump, index));
      find_peer(graph_.calls.back());
    }
  }

  HoldingCall message(std::size_t dump, std::uint32_t index) const {
    const RecordedCall& call = recording(dump).calls[index];
    return {.group = job_.group_of(dump, call),
            .sequence = call.p2p_sequence,
            .is_message = true,
            .dump = dump,
            .call = index,
            .waiting = {rank_of(dump)}};
  }

  const RecordedCall& recorded(const HoldingCall& call) const {
    return recording(call.dump).calls[static_cast<std::size_t>(call.call)];
  }

  /// Whether a send and a recv go from one rank to one other in one group.
  bool are_halves(const HoldingCall& one, const HoldingCall& other) const {
    if (!one.is_message || !other.is_message) return false;
    return job_.are_halves(one.dump, recorded(one), other.dump, recorded(other));
  }

  /// Whether the peer of a message has completed its half: then it does not wait for that of the message,
  /// whatever it is held by now.
  bool has_completed_half(const HoldingCall& call, int peer) const {
    return dump_of(peer) >= 0 &&
           progresses_.messages().has_completed_half(static_cast<std::size_t>(dump_of(peer)), call.dump,
                                                     static_cast<std::uint32_t>(call.call));
  }

  /// Returns the rank to which a message goes, or from which it comes; -1 if there is none.
  int peer_of(const HoldingCall& call) const {
    const Operation& operation = job_.operation(call.dump, recorded(call));
    const bool receives = operation.kind == Operation::Kind::recv;
    return job_.groups[call.group].rank_at(receives ? operation.from : operation.to);
  }

  void find_peer(HoldingCall& call) {
    const RecordedCall& own = recorded(call);
    const Operation& operation = job_.operation(call.dump, own);
    const bool receives = operation.kind == Operation::Kind::recv;
    const int peer = call.peer = peer_of(call);
    if (peer < 0 || has_completed_half(call, peer)) return;
    if (graph_.is_unknown[static_cast<std::size_t>(peer)]) {
      call.absent.push_back(peer);
      return;
    }
    const auto dump = static_cast<std::size_t>(dump_of(peer));
    const PendingCalls& pending = progresses_.of(dump);
    const auto is_other_half = [&](std::uint32_t index) {
      return job_.are_halves(call.dump, own, dump, recording(dump).calls[index]);
    };
    // A send that does not hold its rank is under way, if nothing but its own earlier ones holds the device.
    const auto is_first = [&](std::uint32_t index) {
      return std::ranges::none_of(
          pending.calls, [&](std::uint32_t earlier) { return earlier < index && !is_other_half(earlier); });
    };
    const auto is_there = [&](std::uint32_t index) {
      return pending.front.empty() || (receives && index < pending.front.front() && is_first(index)) ||
             std::ranges::find(pending.front, index) != pending.front.end();
    };
    const auto waits_there = [&](std::uint32_t index) { return is_other_half(index) && is_there(index); };
    if (lags_[dump].is_device || !pending.lost.empty() || std::ranges::none_of(pending.calls, waits_there))
      call.awaited.push_back(peer);
  }

  void connect() {
    graph_.edges.resize(graph_.node_of(graph_.calls.size()));
    for (std::size_t dump = 0; dump < graph_.fronts.size(); ++dump) {
      if (lags_[dump].is_device) continue;  // nothing that it waits for explains it
      const std::vector<std::size_t>& front = graph_.fronts[dump];
      const auto is_message = [&](std::size_t call) { return graph_.calls[call].is_message; };
      const auto awaits = [&](std::size_t call) { return graph_.calls[call].awaits(); };
      // What else is pending does not hold the rank where a message waits for somebody.
      const bool any_awaits =
          std::ranges::any_of(front, [&](std::size_t call) { return is_message(call) && awaits(call); });
      for (const std::size_t call : front) {
        if (!any_awaits || awaits(call))
          graph_.edges[static_cast<std::size_t>(rank_of(dump))].push_back(graph_.node_of(call));
      }
    }
    for (std::size_t call = 0; call < graph_.calls.size(); ++call) {
      for (const int rank : graph_.calls[call].targets())
        graph_.edges[graph_.node_of(call)].push_back(static_cast<std::size_t>(rank));
    }
    graph_.is_awaited.resize(static_cast<std::size_t>(job_.world_size));
    for (std::size_t call = 0; call < graph_.calls.size(); ++call) {
      for (const std::size_t rank : graph_.edges[graph_.node_of(call)]) graph_.is_awaited[rank] = true;
    }
  }

  const Job& job_;
  const Progresses& progresses_;
  const std::vector<Lag>& lags_;
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

WaitGraph wait_graph_of(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags) {
  return GraphBuilder(job, progresses, lags).build();
}

}  // namespace verify
