#include "verify/inspect/waiting.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/printable_text.h"
#include "verify/inspect/strong_components.h"

namespace verify {

namespace {

constexpr std::size_t kMostPeersCompared = 8;

using OperationKind = Operation::Kind;

class Finder {
 public:
  Finder(const Job& job, const Progresses& progresses) : job_(job), progresses_(progresses) {}

  Waiting find() {
    measure_groups();
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) find_lag(dump);
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) add_front(dump);
    for (HoldingCall& call : calls_) find_awaited(call);
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) add_sends_behind(dump);
    connect();
    choose_suspects();
    spread();
    return finished();
  }

 private:
  /// How far the members of a group came that came furthest.
  struct Furthest {
    std::int64_t completed = 0;
    int completed_by = -1;  // a rank
    std::int64_t issued = 0;
    std::vector<std::size_t> issued_by;  // dumps
  };
  struct Lag {
    bool is_device = false, is_host = false;
    std::string reason;
    bool any() const { return is_device || is_host; }
  };

  const Recording& recording(std::size_t dump) const { return job_.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  int dump_of(int rank) const { return job_.dump_of_rank[static_cast<std::size_t>(rank)]; }
  void measure_groups() {
    furthest_.resize(job_.groups.size());
    lags_.resize(job_.recordings.size());
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const GroupOfRank& own : job_.groups_of[dump]) {
        if (own.group == kNoGroup) continue;
        Furthest& furthest = furthest_[own.group];
        if (own.status && job_.groups[own.group].has_status && own.status->completed > furthest.completed) {
          furthest.completed = own.status->completed;
          furthest.completed_by = rank_of(dump);
        }
        const std::int64_t issued = progresses_.last_issued(dump, own.group);
        if (issued > furthest.issued) {
          furthest.issued = issued;
          furthest.issued_by.clear();
        }
        if (issued == furthest.issued && furthest.issued_by.size() < kMostPeersCompared)
          furthest.issued_by.push_back(dump);
      }
      for (const RecordedCall& call : recording(dump).calls) {
        if (call.state != CallState::completed || call.is_p2p) continue;
        Furthest& furthest = furthest_[job_.group_of(dump, call)];
        if (call.sequence <= furthest.completed || job_.operation(dump, call).is_message()) continue;
        furthest.completed = call.sequence;
        furthest.completed_by = rank_of(dump);
      }
    }
  }

  void find_lag(std::size_t dump) {
    const auto behind = [&](const CollectiveId& id) {
      const Furthest& furthest = furthest_[id.group];
      if (lags_[dump].is_device || furthest.completed < id.sequence || furthest.completed_by == rank_of(dump))
        return;
      lags_[dump] = {
          .is_device = true,
          .reason = fmt::format(
              "It has issued call {} of {} and not completed it, and rank {} has completed call {}.",
              id.sequence, group_words(job_.groups[id.group]), furthest.completed_by, furthest.completed)};
    };
    for (const std::uint32_t index : progresses_.of(dump).calls) {
      const RecordedCall& call = recording(dump).calls[index];
      const Operation& operation = job_.operation(dump, call);
      // Gloo has no device: a call that has ended on a member only has ended there with an error.
      if (!call.is_p2p && operation.kind == OperationKind::collective && operation.backend != "gloo")
        behind({job_.group_of(dump, call), call.sequence});
    }
    for (const CollectiveId& id : progresses_.of(dump).lost) behind(id);
    if (lags_[dump].is_device || progresses_.of(dump).calls.empty()) return;
    for (const GroupOfRank& own : job_.groups_of[dump]) {
      if (own.group == kNoGroup || job_.groups[own.group].kind == "pp") continue;
      const Furthest& furthest = furthest_[own.group];
      const std::int64_t issued = progresses_.last_issued(dump, own.group);
      if (issued >= furthest.issued) continue;
      for (const std::size_t peer : furthest.issued_by) {
        if (!is_held_alike(dump, peer)) continue;
        lags_[dump] = {.is_host = true,
                       .reason = fmt::format(
                           "It has issued {} calls of {}, and rank {} has issued {}, although "
                           "the same calls are pending on both.",
                           issued, group_words(job_.groups[own.group]), rank_of(peer), furthest.issued)};
        return;
      }
    }
  }

  /// What a call is on every rank that does the same in another place of the grid. Only Megatron's groups
  /// tell.
  using Likeness = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
  Likeness likeness(std::size_t dump, const RecordedCall& call) const {
    // A message of the default group names its own two ranks, which are others on every rank.
    const Operation& operation = job_.operation(dump, call);
    const JobGroup& group = job_.groups[job_.group_of(dump, call)];
    return {group.description, group.kind.empty() ? operation.name : recording(dump).operation(call),
            call.sequence, call.p2p_sequence};
  }

  /// Whether every call that may hold the rank of `dump` is pending on `peer`, too.
  bool is_held_alike(std::size_t dump, std::size_t peer) const {
    std::set<Likeness> theirs;
    for (const std::uint32_t index : progresses_.of(peer).calls) {
      const RecordedCall& call = recording(peer).calls[index];
      const JobGroup& group = job_.groups[job_.group_of(peer, call)];
      if (!group.kind.empty() || group.description == "default_pg") theirs.insert(likeness(peer, call));
    }
    for (const std::uint32_t index : progresses_.of(dump).calls) {
      const RecordedCall& call = recording(dump).calls[index];
      // A group that both are in is compared itself, and else the group of the same description.
      const CollectiveId id{job_.group_of(dump, call), call.sequence};
      const bool is_shared = is_collective(dump, call) && job_.groups[id.group].has_member(rank_of(peer));
      if (is_shared ? !progresses_.is_pending(peer, id) : !theirs.contains(likeness(dump, call)))
        return false;
    }
    return true;
  }

  bool is_collective(std::size_t dump, const RecordedCall& call) const {
    return !call.is_p2p && !job_.operation(dump, call).is_message();
  }

  void add_front(std::size_t dump) {
    const PendingCalls& pending = progresses_.of(dump);
    std::vector<std::size_t>& own = fronts_.emplace_back();
    for (const std::uint32_t index : pending.front) {
      const RecordedCall& call = recording(dump).calls[index];
      if (is_collective(dump, call)) {
        own.push_back(joined({job_.group_of(dump, call), call.sequence}, dump, index));
        continue;
      }
      own.push_back(calls_.size());
      calls_.push_back(message(dump, index));
    }
    if (!pending.front.empty()) return;
    for (const CollectiveId& id : pending.lost) own.push_back(joined(id, dump, -1));
  }

  /// Adds a rank to the ranks that a collective holds, and returns the call.
  std::size_t joined(const CollectiveId& id, std::size_t dump, std::int64_t index) {
    const auto [found, is_new] = collectives_.try_emplace(id, calls_.size());
    if (is_new) calls_.push_back({.group = id.group, .sequence = id.sequence, .dump = dump, .call = index});
    HoldingCall& call = calls_[found->second];
    if (call.waiting.empty() || call.waiting.back() != rank_of(dump)) call.waiting.push_back(rank_of(dump));
    if (call.call < 0 && index >= 0) {
      call.dump = dump;
      call.call = index;
    }
    return found->second;
  }

  void find_awaited(HoldingCall& call) {
    if (call.is_message) return find_peer(call);
    const CollectiveId id{call.group, call.sequence};
    for (const int member : job_.groups[call.group].members) {
      if (dump_of(member) < 0) {
        call.absent.push_back(member);
        continue;
      }
      const auto dump = static_cast<std::size_t>(dump_of(member));
      const bool others_wait = call.waiting.size() > 1 || call.waiting.front() != member;
      const bool is_broken = lags_[dump].is_device && progresses_.is_pending(dump, id) && others_wait;
      const bool is_there = std::binary_search(call.waiting.begin(), call.waiting.end(), member) ||
                            progresses_.has_completed(dump, id);
      if (is_broken || !is_there) call.awaited.push_back(member);
    }
  }

  /// A send after which the rank went on holds it all the same where nothing else explains why it is held.
  void add_sends_behind(std::size_t dump) {
    std::vector<std::size_t>& own = fronts_[dump];
    const bool is_explained = std::any_of(own.begin(), own.end(), [&](std::size_t call) {
      return !calls_[call].awaited.empty() || !calls_[call].absent.empty();
    });
    if (is_explained || own.empty()) return;
    const PendingCalls& pending = progresses_.of(dump);
    for (const std::uint32_t index : pending.calls) {
      if (pending.front.empty() || index >= pending.front.front()) break;
      own.push_back(calls_.size());
      calls_.push_back(message(dump, index));
      find_peer(calls_.back());
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

  void find_peer(HoldingCall& call) {
    const RecordedCall& own = recording(call.dump).calls[static_cast<std::size_t>(call.call)];
    const Operation& operation = job_.operation(call.dump, own);
    const bool receives = operation.kind == OperationKind::recv;
    const int peer = job_.groups[call.group].rank_at(receives ? operation.from : operation.to);
    if (peer < 0) return;
    if (dump_of(peer) < 0) {
      call.absent.push_back(peer);
      return;
    }
    const auto dump = static_cast<std::size_t>(dump_of(peer));
    const PendingCalls& pending = progresses_.of(dump);
    const auto is_other_half = [&](std::uint32_t index) {
      const RecordedCall& other = recording(dump).calls[index];
      const Operation& theirs = job_.operation(dump, other);
      return job_.group_of(dump, other) == call.group &&
             theirs.kind == (receives ? OperationKind::send : OperationKind::recv) &&
             theirs.from == operation.from && theirs.to == operation.to;
    };
    // A send that does not hold its rank is under way, if nothing else holds the rank's device.
    const std::vector<std::uint32_t>& there = pending.front.empty() ? pending.calls : pending.front;
    if (lags_[dump].is_device || std::none_of(there.begin(), there.end(), is_other_half))
      call.awaited.push_back(peer);
  }

  // ---- the graph: node r is rank r, and node world + c is call c -----------------------------------------

  std::size_t node_of(std::size_t call) const { return static_cast<std::size_t>(job_.world_size) + call; }

  void connect() {
    edges_.resize(node_of(calls_.size()));
    for (std::size_t dump = 0; dump < fronts_.size(); ++dump) {
      if (lags_[dump].any()) continue;  // nothing that it waits for explains it
      for (const std::size_t call : fronts_[dump])
        edges_[static_cast<std::size_t>(rank_of(dump))].push_back(node_of(call));
    }
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      const std::vector<int>& targets =
          calls_[call].awaited.empty() ? calls_[call].absent : calls_[call].awaited;
      for (const int rank : targets) edges_[node_of(call)].push_back(static_cast<std::size_t>(rank));
    }
    is_awaited_.resize(static_cast<std::size_t>(job_.world_size));
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      for (const std::size_t rank : edges_[node_of(call)]) is_awaited_[rank] = true;
    }
  }

  void choose_suspects() {
    const auto world = static_cast<std::size_t>(job_.world_size);
    std::vector<std::vector<std::size_t>> circles, stuck;
    for (std::vector<std::size_t>& component : final_components(edges_)) {
      if (component.size() > 1) {
        circles.push_back(std::move(component));
      } else if (component.front() >= world) {
        stuck.push_back(std::move(component));
      } else {
        add_root(static_cast<int>(component.front()));
      }
    }
    for (const auto& circle : circles) add_circle(circle);
    if (!suspects_.empty()) return;
    for (const auto& call : stuck) add_stuck(calls_[call.front() - world]);
  }

  void suspect(int rank, SuspectKind kind, std::string reason) {
    suspects_.try_emplace(rank, Suspect{rank, kind, std::move(reason)});
  }

  void add_root(int rank) {
    const bool is_awaited = is_awaited_[static_cast<std::size_t>(rank)];
    if (dump_of(rank) < 0) {
      if (is_awaited)
        suspect(rank, SuspectKind::absent, "It has no dump, and other ranks wait for it: it may have died.");
      return;
    }
    const auto dump = static_cast<std::size_t>(dump_of(rank));
    if (lags_[dump].any()) {
      suspect(rank, lags_[dump].is_device ? SuspectKind::device : SuspectKind::host, lags_[dump].reason);
    } else if (is_awaited) {
      suspect(rank, SuspectKind::host, reason_of_idle(rank));
    }
  }

  /// Says how a rank without a pending call is behind those that wait for it, in a collective if there is
  /// one.
  std::string reason_of_idle(int rank) const {
    const HoldingCall* chosen = nullptr;
    for (const HoldingCall& call : calls_) {
      const bool is_for_rank = std::binary_search(call.awaited.begin(), call.awaited.end(), rank);
      if (is_for_rank && (chosen == nullptr || (chosen->is_message && !call.is_message))) chosen = &call;
    }
    if (chosen == nullptr) return "It has no pending call, and others wait for it.";
    const std::string group = group_words(job_.groups[chosen->group]);
    const std::string who = ranks_words(chosen->waiting) + (chosen->waiting.size() == 1 ? " waits" : " wait");
    if (chosen->is_message)
      return fmt::format("It has no pending call, and {} for a message of {}.", who, group);
    return fmt::format("It has no pending call: it has issued {} calls of {}, and {} in call {}.",
                       progresses_.last_issued(static_cast<std::size_t>(dump_of(rank)), chosen->group), group,
                       who, chosen->sequence);
  }

  void add_circle(const std::vector<std::size_t>& component) {
    const auto world = static_cast<std::size_t>(job_.world_size);
    std::vector<int> ranks;
    for (const std::size_t node : component) {
      if (node < world) ranks.push_back(static_cast<int>(node));
    }
    std::sort(ranks.begin(), ranks.end());
    if (const std::vector<int> idle = idle_ranks_behind(ranks); !idle.empty()) {
      for (const int rank : idle)
        suspect(rank, SuspectKind::host,
                "It has no pending call, and has not issued a call that other ranks have issued.");
      return;
    }
    std::map<std::size_t, std::vector<int>> by_call;
    for (const int rank : ranks)
      by_call[fronts_[static_cast<std::size_t>(dump_of(rank))].front()].push_back(rank);
    const auto smaller = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
    const auto few = std::min_element(by_call.begin(), by_call.end(), smaller);
    const bool is_alone = std::count_if(by_call.begin(), by_call.end(), [&](const auto& one) {
                            return one.second.size() == few->second.size();
                          }) == 1;
    circle_ = shortest_circle(edges_, component, world);
    const std::vector<int>& chosen = is_alone && by_call.size() > 1 ? few->second : circle_;
    for (const int rank : chosen) {
      const HoldingCall& call = calls_[fronts_[static_cast<std::size_t>(dump_of(rank))].front()];
      suspect(rank, SuspectKind::order,
              fmt::format("It waits in {} for {}, and {} for it.", call_words(job_, call),
                          ranks_words(call.awaited),
                          ranks.size() == 2 ? "that rank waits" : "they wait, by others or directly,"));
    }
  }

  /// Returns ranks without a pending call that have not issued a call that is pending in the circle.
  std::vector<int> idle_ranks_behind(const std::vector<int>& circle) const {
    std::vector<int> found;
    for (std::size_t idle = 0; idle < job_.recordings.size(); ++idle) {
      if (!progresses_.of(idle).calls.empty() || !progresses_.of(idle).lost.empty()) continue;
      const bool is_behind = std::any_of(circle.begin(), circle.end(), [&](int rank) {
        const auto dump = static_cast<std::size_t>(dump_of(rank));
        const std::vector<std::uint32_t>& pending = progresses_.of(dump).calls;
        return std::any_of(pending.begin(), pending.end(), [&](std::uint32_t index) {
          const RecordedCall& call = recording(dump).calls[index];
          const CollectiveId id{job_.group_of(dump, call), call.sequence};
          return is_collective(dump, call) && job_.groups[id.group].has_member(rank_of(idle)) &&
                 !progresses_.has_issued(idle, id);
        });
      });
      if (is_behind) found.push_back(rank_of(idle));
    }
    return found;
  }

  /// A call to which all have come. Where the recorder knew which devices have begun it, the others are
  /// named.
  void add_stuck(const HoldingCall& call) {
    std::vector<int> behind;
    for (const int rank : call.waiting) {
      if (!has_started(rank, call)) behind.push_back(rank);
    }
    const bool tells = !call.is_message && behind.size() < call.waiting.size() && !behind.empty();
    is_stuck_ = true;
    for (const int rank : tells ? behind : call.waiting)
      suspect(
          rank, SuspectKind::device,
          tells ? fmt::format("Its device has not begun {}, which others have begun.", call_words(job_, call))
                : fmt::format("Every member has come to {}, and none has completed it.",
                              call_words(job_, call)));
  }

  bool has_started(int rank, const HoldingCall& holding) const {
    const auto dump = static_cast<std::size_t>(dump_of(rank));
    for (const std::uint32_t index : progresses_.of(dump).front) {
      const RecordedCall& call = recording(dump).calls[index];
      if (job_.group_of(dump, call) == holding.group && call.sequence == holding.sequence)
        return call.state == CallState::started;
    }
    return false;
  }

  /// Finds how far from a suspect every call is, and by which kinds of groups the wait spreads.
  void spread() {
    std::vector<std::vector<std::size_t>> callers(static_cast<std::size_t>(job_.world_size));
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      for (const std::size_t rank : edges_[node_of(call)]) callers[rank].push_back(call);
    }
    std::set<std::string> named;
    std::vector<bool> reached(static_cast<std::size_t>(job_.world_size));
    std::vector<int> next;
    for (const auto& [rank, one] : suspects_) {
      reached[static_cast<std::size_t>(rank)] = true;
      next.push_back(rank);
    }
    for (int distance = 1; !next.empty(); ++distance) {
      std::vector<int> ranks;
      std::set<std::string> names;
      for (const int rank : next) {
        for (const std::size_t index : callers[static_cast<std::size_t>(rank)]) {
          HoldingCall& call = calls_[index];
          if (call.distance >= 0) continue;
          call.distance = distance;
          bool spreads = false;
          for (const int waiting : call.waiting) {
            if (reached[static_cast<std::size_t>(waiting)]) continue;
            reached[static_cast<std::size_t>(waiting)] = spreads = true;
            ranks.push_back(waiting);
            ++waiting_ranks_;
          }
          if (spreads) names.insert(name_of(job_.groups[call.group]));
        }
      }
      std::erase_if(names, [&](const std::string& name) { return !named.insert(name).second; });
      if (!names.empty()) through_.push_back(fmt::format("{}", fmt::join(names, " and ")));
      std::sort(ranks.begin(), ranks.end());
      next = std::move(ranks);
    }
  }

  static std::string name_of(const JobGroup& group) {
    if (!group.kind.empty()) return group.kind;
    if (group.description == "default_pg") return "the default group";
    return fmt::format("group '{}'", sim::printable_text(group.name.substr(0, 40)));
  }

  Waiting finished() {
    Waiting waiting;
    std::stable_sort(calls_.begin(), calls_.end(), [](const HoldingCall& a, const HoldingCall& b) {
      const auto place = [](const HoldingCall& call) {
        return std::tuple(call.distance < 0, call.distance, call.waiting.front());
      };
      return place(a) < place(b);
    });
    waiting.calls = std::move(calls_);
    for (auto& [rank, one] : suspects_) waiting.suspects.push_back(std::move(one));
    waiting.circle = std::move(circle_);
    waiting.through = std::move(through_);
    waiting.waiting_ranks = waiting_ranks_;
    waiting.is_stuck = is_stuck_;
    return waiting;
  }

  const Job& job_;
  const Progresses& progresses_;
  std::vector<Furthest> furthest_;  // by group
  std::vector<Lag> lags_;           // by dump
  std::vector<HoldingCall> calls_;
  std::map<CollectiveId, std::size_t> collectives_;  // index into calls_
  std::vector<std::vector<std::size_t>> fronts_;     // by dump, indices into calls_
  std::vector<std::vector<std::size_t>> edges_;      // by node
  std::vector<bool> is_awaited_;                     // by rank
  std::map<int, Suspect> suspects_;
  std::vector<int> circle_;
  std::vector<std::string> through_;
  std::int64_t waiting_ranks_ = 0;
  bool is_stuck_ = false;
};

}  // namespace

const char* suspect_kind_name(SuspectKind kind) {
  switch (kind) {
    case SuspectKind::host:
      return "host";
    case SuspectKind::device:
      return "device";
    case SuspectKind::order:
      return "order";
    case SuspectKind::absent:
      return "absent";
    case SuspectKind::unknown:
      return "unknown";
  }
  return "";
}

Waiting waiting_of(const Job& job, const Progresses& progresses) { return Finder(job, progresses).find(); }

std::string call_words(const Job& job, const HoldingCall& call) {
  const JobGroup& group = job.groups[call.group];
  const std::string name = call.call < 0
                               ? "a call"
                               : sim::printable_text(job.recordings[call.dump].operation(
                                     job.recordings[call.dump].calls[static_cast<std::size_t>(call.call)]));
  if (call.is_message) return fmt::format("{} of {}", name, group_words(group));
  return fmt::format("{}, call {} of {}", name, call.sequence, group_words(group));
}

std::string group_words(const JobGroup& group) {
  const std::string name = sim::printable_text(group.name.substr(0, 40));
  if (group.description == "default_pg") return "the default group";
  std::string ranks = ranks_words(group.members);
  if (!group.kind.empty()) return fmt::format("the {} group of {}", group.kind, ranks);
  return fmt::format("group '{}' of {}", name, ranks);
}

}  // namespace verify
