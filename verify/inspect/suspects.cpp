#include "verify/inspect/suspects.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "verify/inspect/calls_ahead.h"
#include "verify/inspect/strong_components.h"
#include "verify/inspect/stuck_messages.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class Chooser {
 public:
  Chooser(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags, const WaitGraph& graph)
      : job_(job), progresses_(progresses), lags_(lags), graph_(graph) {}

  Suspects choose() {
    choose_suspects();
    Suspects chosen;
    for (auto& [rank, one] : suspects_) chosen.ranks.push_back(std::move(one));
    chosen.circles = std::move(circles_);
    chosen.are_alone = are_alone_;
    chosen.unknown = std::move(unknown_);
    chosen.is_stuck = is_stuck_;
    chosen.are_behind = are_behind_;
    chosen.is_ahead = is_ahead_;
    chosen.counted = std::move(counted_);
    chosen.running = running_;
    chosen.is_unreceived = is_unreceived_;
    if (departed_.size() == chosen.ranks.size()) chosen.departed = std::move(departed_);
    if (chosen.circles.size() == 1) chosen.missed = std::move(missed_);
    if (chosen.circles.size() == 1) chosen.facing = std::move(facing_);
    return chosen;
  }

 private:
  const Recording& recording(std::size_t dump) const { return job_.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  int dump_of(int rank) const { return job_.dump_of_rank[static_cast<std::size_t>(rank)]; }

  /// Returns the first of the calls that hold a rank, which must be held.
  const HoldingCall& first_call_of(int rank) const {
    return graph_.calls[graph_.fronts[static_cast<std::size_t>(dump_of(rank))].front()];
  }

  void choose_suspects() {
    const auto world = static_cast<std::size_t>(job_.world_size);
    std::vector<std::vector<std::size_t>> circles, stuck;
    for (std::vector<std::size_t>& component : final_components(graph_.edges)) {
      if (component.size() > 1) {
        circles.push_back(std::move(component));
      } else if (component.front() >= world) {
        stuck.push_back(std::move(component));
      } else {
        add_root(static_cast<int>(component.front()));
      }
    }
    add_idle_behind();
    add_idle_of_two();
    drop_explained_absent();
    prefer_idle();
    prefer_ranks_ahead();
    if (!suspects_.empty()) return;
    add_stuck_messages();
    if (!suspects_.empty()) return;
    for (const auto& circle : circles) add_circle(circle);
    if (!suspects_.empty()) return;
    add_stuck_calls(stuck);
    if (running_ > 0) return;
    if (suspects_.empty()) add_idle_beside();
    if (suspects_.empty()) add_absent();
    if (suspects_.empty()) add_lone_sends();
    if (!suspects_.empty()) return;
    for (const int rank : early_roots_)
      suspect(rank, SuspectKind::unknown, "Its dump was written early, and other ranks wait for it.");
  }

  /// Messages that both ends wait for, with nothing pending before them.
  void add_stuck_messages() {
    for (const StuckMessage& one : stuck_messages_of(job_, progresses_, lags_)) {
      is_stuck_ = true;
      suspect(one.rank, SuspectKind::device,
              fmt::format("Both halves of {} are pending, and nothing is pending before them.",
                          call_words(job_, HoldingCall{.group = one.group,
                                                       .sequence = one.sequence,
                                                       .is_message = true,
                                                       .dump = one.dump,
                                                       .call = one.call})));
    }
  }

  /// Where few ranks wait in a call that all others have not made before they ended, the few are named.
  void prefer_ranks_ahead() {
    if (suspects_.empty()) return;
    const std::vector<RankAhead> ahead = ranks_ahead(job_, progresses_, graph_);
    if (ahead.empty()) return;
    suspects_.clear();
    is_ahead_ = true;
    for (const RankAhead& one : ahead)
      suspect(one.rank, one.is_awaited ? SuspectKind::host : SuspectKind::order, one.reason);
  }

  /// Where nothing holds a rank but a send that nobody receives, its peer is named.
  void add_lone_sends() {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const PendingCalls& pending = progresses_.of(dump);
      if (!pending.front.empty() || !pending.lost.empty()) continue;
      for (const std::uint32_t index : pending.calls) {
        const RecordedCall& call = recording(dump).calls[index];
        const JobGroup& group = job_.groups[job_.group_of(dump, call)];
        const int peer = group.rank_at(job_.operation(dump, call).to);
        if (peer < 0 || dump_of(peer) < 0 || !is_idle(static_cast<std::size_t>(dump_of(peer)))) continue;
        suspect(peer, SuspectKind::host,
                fmt::format("It has no pending call, and rank {} has sent it a message in {} that it has not "
                            "received.",
                            rank_of(dump), group_words(group)));
      }
    }
  }

  /// Whether a call holds its ranks itself: nothing that is pending before it may be lost, on them or on the
  /// peer of a message.
  bool is_certain(const HoldingCall& call) const {
    return call.call >= 0 && !job_.groups[call.group].may_lack_members && !may_have_been_held_before(call) &&
           (call.peer < 0 || !may_have_lost(call.peer)) &&
           std::none_of(call.waiting.begin(), call.waiting.end(),
                        [&](int rank) { return may_have_lost(rank) || has_lost_call_of(rank); });
  }

  /// Whether the call that holds a rank is known by its number only: it may be another one than the others
  /// make under this number.
  bool has_lost_call_of(int rank) const {
    return dump_of(rank) >= 0 && !progresses_.of(static_cast<std::size_t>(dump_of(rank))).lost.empty();
  }

  /// Whether a member whose dump is early was held, when it wrote the dump, by a call before this collective:
  /// it had issued this one, and its device may not have come to it.
  bool may_have_been_held_before(const HoldingCall& call) const {
    return !call.is_message && std::ranges::any_of(job_.groups[call.group].members, [&](int member) {
      if (!is_early(member)) return false;
      const auto dump = static_cast<std::size_t>(dump_of(member));
      const std::vector<RecordedCall>& calls = recording(dump).calls;
      const auto open = std::ranges::find_if(
          calls, [](const RecordedCall& one) { return one.state != CallState::completed; });
      return open != calls.end() &&
             (job_.group_of(dump, *open) != call.group || open->sequence != call.sequence);
    });
  }

  /// Whether a call that the ring of a rank has lost may hold the rank.
  bool may_have_lost(int rank) const {
    return dump_of(rank) >= 0 && progresses_.may_have_lost(static_cast<std::size_t>(dump_of(rank)));
  }

  /// Where the rings have lost the calls that hold the ranks: ranks without a dump that are members of calls
  /// that are pending.
  void add_absent() {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const std::uint32_t index : progresses_.of(dump).calls) {
        const RecordedCall& call = recording(dump).calls[index];
        if (!job_.is_collective(dump, call)) continue;
        for (const int member : possible_members(job_.groups[job_.group_of(dump, call)])) {
          if (dump_of(member) < 0)
            suspect(member, SuspectKind::absent,
                    fmt::format("{}, and calls of its groups are pending: it may have died.",
                                words_of_absence(member)));
        }
      }
    }
  }

  /// The ranks that may be members of a group: all ranks where the dumps do not tell.
  std::vector<int> possible_members(const JobGroup& group) const {
    if (!group.may_lack_members) return group.members;
    std::vector<int> all(static_cast<std::size_t>(job_.world_size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// Where most ranks have pending calls and the dumps do not tell who is in these, few ranks without a
  /// pending call.
  void add_idle_beside() {
    std::vector<int> idle;
    std::size_t held = 0;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const std::vector<std::uint32_t>& calls = progresses_.of(dump).calls;
      if (is_idle(dump)) idle.push_back(rank_of(dump));
      held += std::ranges::any_of(calls, [&](std::uint32_t index) {
        return job_.groups[job_.group_of(dump, recording(dump).calls[index])].may_lack_members;
      });
    }
    if (idle.size() >= held) return;
    for (const int rank : idle)
      suspect(rank, SuspectKind::host,
              "It has no pending call, and others wait in calls whose members the dumps do not tell.");
  }

  /// A rank without a pending call that has not issued a collective that is pending on another member stands
  /// still, even if the others are held by something else before they come to it.
  void add_idle_behind() {
    std::vector<std::int64_t> furthest_pending(job_.groups.size());
    const auto add = [&](std::uint32_t group, std::int64_t sequence) {
      furthest_pending[group] = std::max(furthest_pending[group], sequence);
    };
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const CollectiveId& id : progresses_.of(dump).lost) add(id.group, id.sequence);
      for (const std::uint32_t index : progresses_.of(dump).calls) {
        const RecordedCall& call = recording(dump).calls[index];
        if (job_.is_collective(dump, call)) add(job_.group_of(dump, call), call.sequence);
      }
    }
    for (std::uint32_t group = 0; group < job_.groups.size(); ++group) {
      if (furthest_pending[group] > 0) add_idle_behind(group, furthest_pending[group]);
    }
  }

  /// Of two ranks, one whose device is behind may have an early dump, and the other one, without a pending
  /// call, has not gone on: it may as well stand still itself.
  void add_idle_of_two() {
    if (job_.world_size != 2 || suspects_.size() != 1 || job_.recordings.size() != 2) return;
    const Suspect one = suspects_.begin()->second;
    const auto other = static_cast<std::size_t>(dump_of(1 - one.rank));
    if (one.kind == SuspectKind::device && is_idle(other))
      suspect(1 - one.rank, SuspectKind::host,
              fmt::format("It has no pending call, and has gone on from a call that is pending on rank {}.",
                          one.rank));
  }

  void add_idle_behind(std::uint32_t group, std::int64_t sequence) {
    for (const int member : job_.groups[group].members) {
      if (dump_of(member) < 0 || !is_idle(static_cast<std::size_t>(dump_of(member)))) continue;
      const std::int64_t issued = progresses_.last_issued(static_cast<std::size_t>(dump_of(member)), group);
      if (issued < sequence)
        suspect(member, SuspectKind::host,
                fmt::format("It has no pending call: it has issued {} of {}, and call {} of it is pending on "
                            "another rank.",
                            counted(issued, "call"), group_words(job_.groups[group]), sequence));
    }
  }

  /// A rank without a dump for which others wait may wait, too: for a rank that is known to stand still, if
  /// it is in a call that waits for one, or in a group, other than the default one, of a rank that does.
  void drop_explained_absent() {
    std::vector<bool> waits(static_cast<std::size_t>(job_.world_size));
    std::vector<bool> is_explained(job_.groups.size());
    std::vector<int> next;
    for (const auto& [rank, one] : suspects_) {
      if (one.kind != SuspectKind::absent) next.push_back(rank);
    }
    if (next.empty()) return;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const int rank = rank_of(dump);
      if (may_have_lost(rank) || has_lost_call_of(rank)) next.push_back(rank);  // it may wait for any rank
    }
    const auto callers = graph_.callers();
    for (const int rank : next) waits[static_cast<std::size_t>(rank)] = true;
    while (!next.empty()) {
      const int rank = next.back();
      next.pop_back();
      for (const std::size_t index : callers[static_cast<std::size_t>(rank)]) {
        const HoldingCall& call = graph_.calls[index];
        if (!call.is_message) is_explained[call.group] = true;
        for (const int waiting : call.waiting) {
          if (waits[static_cast<std::size_t>(waiting)]) continue;
          waits[static_cast<std::size_t>(waiting)] = true;
          next.push_back(waiting);
        }
      }
    }
    std::set<int> explained;
    for (std::size_t i = 0; i < job_.groups.size(); ++i) {
      const std::vector<int>& members = job_.groups[i].members;
      const bool is_default = job_.groups[i].description == "default_pg";
      const bool has_waiting = !is_default && std::any_of(members.begin(), members.end(), [&](int member) {
        return waits[static_cast<std::size_t>(member)];
      });
      if (is_explained[i] || has_waiting) explained.insert(members.begin(), members.end());
    }
    std::erase_if(suspects_, [&](const auto& one) {
      const bool goes = one.second.kind == SuspectKind::absent && explained.contains(one.first);
      if (goes) unknown_.push_back(one.first);
      return goes;
    });
  }

  /// Ranks without a dump may wait for a rank that is known to stand still, although no call that is known
  /// waits for that one.
  void prefer_idle() {
    const auto is_absent = [](const auto& one) { return one.second.kind == SuspectKind::absent; };
    if (suspects_.empty() || !std::ranges::all_of(suspects_, is_absent)) return;
    std::vector<int> idle;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump)
      if (is_idle(dump) && (recording(dump).is_whole() || recording(dump).calls.empty()))
        idle.push_back(rank_of(dump));
    if (idle.empty() || 2 * idle.size() > job_.recordings.size()) return;
    for (const auto& [rank, one] : suspects_) unknown_.push_back(rank);
    suspects_.clear();
    for (const int rank : idle)
      suspect(rank, SuspectKind::host,
              "It has no pending call, and other ranks wait for ranks without a dump.");
  }

  std::string words_of_absence(int rank) const {
    const BlankDump* const blank = job_.find_blank(rank);
    if (blank != nullptr) return fmt::format("Its dump {}", words_of(*blank));
    return dump_of(rank) < 0 ? "It has no dump" : "Its dump ends in the middle";
  }

  bool is_idle(std::size_t dump) const {
    return !recording(dump).is_truncated && !job_.is_early[dump] && progresses_.of(dump).calls.empty() &&
           progresses_.of(dump).lost.empty();
  }

  bool is_early(int rank) const {
    return dump_of(rank) >= 0 && job_.is_early[static_cast<std::size_t>(dump_of(rank))];
  }

  void suspect(int rank, SuspectKind kind, std::string reason) {
    suspects_.try_emplace(rank, Suspect{rank, kind, std::move(reason)});
  }

  void add_root(int rank) {
    const bool is_awaited = graph_.is_awaited[static_cast<std::size_t>(rank)];
    if (graph_.is_unknown[static_cast<std::size_t>(rank)]) {
      if (is_awaited && is_early(rank)) return early_roots_.push_back(rank);
      if (is_awaited)
        suspect(rank, SuspectKind::absent,
                fmt::format("{}, and other ranks wait for it: it may have died.", words_of_absence(rank)));
      return;
    }
    const auto dump = static_cast<std::size_t>(dump_of(rank));
    if (lags_[dump].is_device) {
      suspect(rank, SuspectKind::device, lags_[dump].reason);
    } else if (is_awaited && !is_awaited_by_devices_alone(rank)) {
      suspect(rank, SuspectKind::host, reason_of_idle(rank));
    }
  }

  /// Whether nobody waits for a rank but in messages of ranks whose own devices have stopped: such a message
  /// is pending there, whatever the rank has done.
  bool is_awaited_by_devices_alone(int rank) const {
    const auto has_stopped = [&](int waiting) {
      return dump_of(waiting) >= 0 && lags_[static_cast<std::size_t>(dump_of(waiting))].is_device;
    };
    return std::ranges::all_of(graph_.calls, [&](const HoldingCall& call) {
      const bool is_for_rank = std::binary_search(call.awaited.begin(), call.awaited.end(), rank);
      return !is_for_rank || (call.is_message && std::ranges::all_of(call.waiting, has_stopped));
    });
  }

  /// Says how a rank without a pending call is behind those that wait for it, in a collective if there is
  /// one.
  std::string reason_of_idle(int rank) const {
    const HoldingCall* chosen = nullptr;
    for (const HoldingCall& call : graph_.calls) {
      const bool is_for_rank = std::binary_search(call.awaited.begin(), call.awaited.end(), rank);
      if (is_for_rank && (chosen == nullptr || (chosen->is_message && !call.is_message))) chosen = &call;
    }
    if (chosen == nullptr) return "It has no pending call, and others wait for it.";
    const std::string group = group_words(job_.groups[chosen->group]);
    const std::string who = ranks_words(chosen->waiting) + (chosen->waiting.size() == 1 ? " waits" : " wait");
    if (chosen->is_message)
      return fmt::format("It has no pending call, and {} for a message of {}.", who, group);
    const std::int64_t issued =
        progresses_.last_issued(static_cast<std::size_t>(dump_of(rank)), chosen->group);
    const std::string done = issued == 0
                                 ? fmt::format("its dump has no call of {}", group)
                                 : fmt::format("it has issued {} of {}", counted(issued, "call"), group);
    return fmt::format("It has no pending call: {}, and {} in call {}.", done, who, chosen->sequence);
  }

  void add_circle(const std::vector<std::size_t>& component) {
    const auto world = static_cast<std::size_t>(job_.world_size);
    std::vector<int> ranks;
    for (const std::size_t node : component) {
      if (node < world) ranks.push_back(static_cast<int>(node));
    }
    std::sort(ranks.begin(), ranks.end());
    std::vector<int> circle = shortest_circle(graph_.edges, component, world);
    if (std::ranges::any_of(circle, [&](int rank) { return may_have_lost(rank); })) return;
    if (add_missing(component)) {
      circles_.push_back(std::move(circle));
      return;
    }
    std::map<std::size_t, std::vector<int>> by_call;
    for (const int rank : ranks)
      by_call[graph_.fronts[static_cast<std::size_t>(dump_of(rank))].front()].push_back(rank);
    const auto smaller = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
    const auto few = std::min_element(by_call.begin(), by_call.end(), smaller);
    const bool is_alone = std::count_if(by_call.begin(), by_call.end(), [&](const auto& one) {
                            return one.second.size() == few->second.size();
                          }) == 1;
    std::vector<int> alone = odd_ranks_of(component);
    if (alone.empty() && is_alone && by_call.size() > 1) alone = few->second;
    // A rank that a message holds is no odder than the other end of the message.
    const bool names_alone =
        are_missed(alone, circle, component) &&
        std::ranges::none_of(alone, [&](int rank) { return first_call_of(rank).is_message; });
    if (!names_alone && add_departing(ranks)) {
      circles_.push_back(std::move(circle));
      return;
    }
    if (!names_alone) widen(ranks, circle);
    if (!names_alone) add_other_peers(circle);
    are_alone_ = names_alone && (circles_.empty() || are_alone_);
    const std::vector<int>& chosen = names_alone ? alone : circle;
    for (const int rank : chosen) {
      const HoldingCall& call = first_call_of(rank);
      suspect(rank, SuspectKind::order,
              fmt::format("It waits in {} for {}, and {} for it.", call_words(job_, call),
                          ranks_words(call.awaited),
                          ranks.size() == 2 ? "that rank waits" : "they wait, by others or directly,"));
    }
    circles_.push_back(std::move(circle));
  }

  /// Adds to a circle of two ranks those that hold each other in the same ways: where a stage or a replica of
  /// the model makes a call of its own, each of its ranks is held by another one of the others.
  void widen(const std::vector<int>& ranks, std::vector<int>& circle) {
    if (circle.size() != 2) return;
    int one = circle[0], other = circle[1];  // `other` waits for fewer ranks
    if (first_call_of(one).awaited.size() < first_call_of(other).awaited.size()) std::swap(one, other);
    const std::pair way = way_of_holding(one), other_way = way_of_holding(other);
    if (way == other_way) return;
    std::set<int> held_as_one, held_as_other;
    for (const int rank : ranks) {
      const std::pair own = way_of_holding(rank);
      if (own == way) held_as_one.insert(rank);
      if (own == other_way) held_as_other.insert(rank);
    }
    std::set<int> party, others;
    for (const int rank : held_as_other) {
      for (const int facing : first_call_of(rank).awaited) {
        if (!held_as_one.contains(facing) || !waits_for(facing, rank)) continue;
        party.insert(facing);
        others.insert(rank);
      }
    }
    if (party.size() != others.size() || party.size() < 2) return;
    facing_ = fmt::format("{}, and {}", words_of_party({party.begin(), party.end()}, one),
                          words_of_party({others.begin(), others.end()}, other));
    party.insert(others.begin(), others.end());
    circle.assign(party.begin(), party.end());
  }

  /// Of two ranks that wait for each other, a batch of messages may hold one that waits for other ranks, too,
  /// which wait for it in the same way: then these have left out their halves as likely.
  void add_other_peers(std::vector<int>& circle) const {
    if (circle.size() != 2) return;
    const std::vector<int> ends = circle;
    for (const int rank : ends) {
      for (const std::size_t call : graph_.fronts[static_cast<std::size_t>(dump_of(rank))]) {
        if (!graph_.calls[call].is_message) continue;
        for (const int peer : graph_.calls[call].awaited)
          if (std::ranges::find(circle, peer) == circle.end() && waits_for(peer, rank))
            circle.push_back(peer);
      }
    }
    std::ranges::sort(circle);
  }

  bool waits_for(int rank, int other) const {
    const std::vector<std::size_t>& front = graph_.fronts[static_cast<std::size_t>(dump_of(rank))];
    return std::ranges::any_of(front, [&](std::size_t call) {
      const std::vector<int>& awaited = graph_.calls[call].awaited;
      return std::binary_search(awaited.begin(), awaited.end(), other);
    });
  }

  /// Says in which calls ranks wait that are all held as one of them is.
  std::string words_of_party(const std::vector<int>& party, int example) const {
    const HoldingCall& call = first_call_of(example);
    std::set<std::uint32_t> groups;
    for (const int rank : party) groups.insert(first_call_of(rank).group);
    const auto more = std::ssize(groups) - 1;
    return fmt::format(
        "{} wait in {}{}", ranks_words(party), call_words(job_, call),
        more == 0 ? "" : fmt::format(", and in {} of this kind", counted(more, "other group")));
  }

  /// Names the ranks of a circle, but not all, that depart from the calls of their pipeline stage. Returns
  /// whether there are such ranks.
  bool add_departing(const std::vector<int>& ranks) {
    if (!departing_) departing_ = odd_programs(job_, Elements::left_out);
    std::vector<OddProgram> found;
    for (const OddProgram& one : *departing_)
      if (std::ranges::find(ranks, one.rank) != ranks.end()) found.push_back(one);
    if (found.empty() || found.size() == ranks.size()) return false;
    for (const OddProgram& one : found) {
      suspect(one.rank, SuspectKind::order, departure_words(job_, one));
      departed_.push_back(one);
    }
    return true;
  }

  /// A collective of a circle to which some members have not come, and in which more wait for them.
  struct Missed {
    std::size_t call = 0;  // index into the calls of the graph
    std::size_t more = 0;  // how many more wait than have not come
  };

  std::vector<Missed> missed_calls(const std::vector<std::size_t>& component) const {
    std::vector<Missed> found;
    for (const std::size_t node : component) {
      if (node < graph_.world) continue;
      const HoldingCall& call = graph_.calls[node - graph_.world];
      const CollectiveId id{call.group, call.sequence};
      const bool is_left_out = !call.is_message && std::ranges::none_of(call.awaited, [&](int rank) {
        return progresses_.has_issued(static_cast<std::size_t>(dump_of(rank)), id);
      });
      if (is_left_out && call.waiting.size() > call.awaited.size())
        found.push_back({node - graph_.world, call.waiting.size() - call.awaited.size()});
    }
    return found;
  }

  /// Whether the collective that holds a rank waits for more ranks than it holds.
  bool is_in_smaller_part(int rank) const {
    const HoldingCall& call = first_call_of(rank);
    return !call.is_message && call.waiting.size() < call.awaited.size();
  }

  /// Whether the call that holds a rank is a later one, by its number, than those that ranks at its place of
  /// other groups of the kind have made: it has left out what they wait in. Otherwise they may have left out
  /// the call that holds it.
  bool is_ahead_of_alike(int rank) const {
    const HoldingCall& own = first_call_of(rank);
    bool has_others = false;
    for (const auto& [there, group] : job_.counterparts(rank, own.group)) {
      const std::int64_t last =
          progresses_.last_number(static_cast<std::size_t>(dump_of(there)), group, own.is_message);
      if (last >= own.sequence) return false;
      has_others = has_others || last >= 0;
    }
    return has_others;
  }

  /// Names the ranks of a circle that are missed by most members of collectives; of several such ranks, those
  /// that wait themselves for most members of a collective. Returns whether they are told apart.
  bool add_missing(const std::vector<std::size_t>& component) {
    const std::vector<Missed> calls = missed_calls(component);
    std::set<int> missing, smaller;
    for (const Missed& one : calls) {
      for (const int rank : graph_.calls[one.call].awaited) {
        missing.insert(rank);
        if (is_in_smaller_part(rank)) smaller.insert(rank);
      }
    }
    if (!smaller.empty()) missing = smaller;
    const auto are_all_missing = [&](const Missed& one) {
      return std::ranges::all_of(graph_.calls[one.call].awaited,
                                 [&](int rank) { return missing.contains(rank); });
    };
    const Missed* most = nullptr;
    for (const Missed& one : calls) {
      if (are_all_missing(one) && (most == nullptr || one.more > most->more)) most = &one;
    }
    if (most == nullptr) return false;
    const HoldingCall& call = graph_.calls[most->call];
    if (smaller.empty() && call.awaited.size() < missing.size()) return false;
    const auto is_odd = [&](int rank) { return is_in_smaller_part(rank) || is_ahead_of_alike(rank); };
    if (!std::ranges::all_of(call.awaited, is_odd)) return false;
    std::vector<int> named;
    std::int64_t groups = 0;
    for (const Missed& one : calls) {
      const HoldingCall& other = graph_.calls[one.call];
      if (&one != most && !is_missed_alike(other, call, is_odd)) continue;
      ++groups;
      named.insert(named.end(), other.awaited.begin(), other.awaited.end());
      for (const int rank : other.awaited) suspect_missing(rank, other);
    }
    const HoldingCall& first = first_call_of(call.awaited.front());
    missed_ = fmt::format(
        "{}, in which {} {},{} and {} in {}", call_words(job_, call), ranks_words(call.waiting),
        call.waiting.size() == 1 ? "waits" : "wait",
        groups == 1 ? ""
                    : fmt::format(" nor to those of {} of this kind,", counted(groups - 1, "other group")),
        named.size() == 1 ? "waits" : "wait", call_words(job_, first));
    return true;
  }

  void suspect_missing(int rank, const HoldingCall& call) {
    const HoldingCall& own = first_call_of(rank);
    suspect(rank, SuspectKind::order,
            fmt::format("It has not come to {}, in which {} wait for it, and waits itself in {} for {}.",
                        call_words(job_, call), ranks_words(call.waiting), call_words(job_, own),
                        ranks_words(own.awaited)));
  }

  /// Whether the ranks that a call of another group misses are held by the same call as those that one of the
  /// kind misses, as where all ranks of a replica of the model save a checkpoint.
  template <typename IsOdd>
  bool is_missed_alike(const HoldingCall& one, const HoldingCall& call, const IsOdd& is_odd) const {
    const HoldingCall* const holding = &first_call_of(call.awaited.front());
    return one.group != call.group && one.awaited.size() == call.awaited.size() &&
           job_.groups[one.group].description == job_.groups[call.group].description &&
           std::ranges::all_of(one.awaited,
                               [&](int rank) { return is_odd(rank) && &first_call_of(rank) == holding; });
  }

  /// Whether ranks are of a circle and are missed in a collective of their component, and no other
  /// rank is missed in one by most of its members.
  bool are_missed(const std::vector<int>& ranks, const std::vector<int>& circle,
                  const std::vector<std::size_t>& component) const {
    const auto has = [](const std::vector<int>& some, int rank) {
      return std::ranges::find(some, rank) != some.end();
    };
    if (std::ranges::none_of(ranks, [&](int rank) { return has(circle, rank); })) return false;
    bool is_missed = false;
    for (const std::size_t node : component) {
      if (node < graph_.world) continue;
      const HoldingCall& call = graph_.calls[node - graph_.world];
      if (call.is_message) continue;
      const auto is_among = [&](int rank) { return has(ranks, rank); };
      if (std::ranges::all_of(call.awaited, is_among)) {
        is_missed = true;
      } else if (2 * call.awaited.size() < job_.groups[call.group].members.size() &&
                 std::ranges::none_of(call.awaited, is_among)) {
        return false;
      }
    }
    return is_missed;
  }

  /// Returns the ranks that wait alone in the only collective of a circle whose other members, the larger
  /// part, are all held in one way; none where there is no such call.
  std::vector<int> odd_ranks_of(const std::vector<std::size_t>& component) const {
    std::vector<int> odd;
    for (const std::size_t node : component) {
      if (node < graph_.world) continue;
      const HoldingCall& call = graph_.calls[node - graph_.world];
      if (call.is_message || 2 * call.waiting.size() >= job_.groups[call.group].members.size()) continue;
      std::set<std::pair<std::string, std::string>> held;  // by the kinds of the groups and the operations
      for (const int rank : call.awaited) {
        if (!waits_only_for(rank, call.waiting)) held.insert(way_of_holding(rank));
      }
      if (held.size() > 1 || call.awaited.size() < 2) continue;
      if (!odd.empty()) return {};
      odd = call.waiting;
    }
    return odd;
  }

  bool waits_only_for(int rank, const std::vector<int>& ranks) const {
    const std::vector<std::size_t>& front = graph_.fronts[static_cast<std::size_t>(dump_of(rank))];
    return std::all_of(front.begin(), front.end(),
                       [&](std::size_t call) { return graph_.calls[call].awaited == ranks; });
  }

  std::pair<std::string, std::string> way_of_holding(int rank) const {
    const auto dump = static_cast<std::size_t>(dump_of(rank));
    if (graph_.fronts[dump].empty()) return {};
    const HoldingCall& call = graph_.calls[graph_.fronts[dump].front()];
    const std::vector<RecordedCall>& calls = recording(call.dump).calls;
    return {job_.groups[call.group].description,
            call.call < 0 ? "" : job_.operation(call.dump, calls[static_cast<std::size_t>(call.call)]).name};
  }

  /// Calls to which all have come. One of them holds none of its ranks where one of these waits in another
  /// call for others, as in a send that nobody has received yet. Where that is so of all of them, those who
  /// have not received are named.
  void add_stuck_calls(const std::vector<std::vector<std::size_t>>& stuck) {
    std::vector<std::size_t> unreceived;
    std::vector<const HoldingCall*> certain;
    for (const auto& component : stuck) {
      const HoldingCall& call = graph_.calls[component.front() - graph_.world];
      const std::vector<std::size_t> others = calls_that_await(call.waiting);
      if (!others.empty()) {
        unreceived.insert(unreceived.end(), others.begin(), others.end());
      } else if (is_certain(call)) {
        certain.push_back(&call);
      }
    }
    // Of a call that some devices have begun, the dumps tell which have not, whatever else runs.
    std::vector<const HoldingCall*> telling;
    std::ranges::copy_if(certain, std::back_inserter(telling),
                         [&](const HoldingCall* call) { return !ranks_behind(*call).empty(); });
    const auto is_collective = [](const HoldingCall* call) {
      return !call->is_message && call->waiting.size() > 1;
    };
    const auto collectives = static_cast<std::size_t>(std::ranges::count_if(certain, is_collective));
    if (telling.empty() && collectives > 1 && unreceived.empty()) {
      running_ = collectives;
      return;
    }
    if (!telling.empty()) certain = std::move(telling);
    for (const HoldingCall* call : certain)
      if (!add_counted(*call)) add_stuck(*call);
    if (suspects_.empty()) add_unreceived(unreceived);
  }

  /// Returns the calls that hold ranks and wait for others.
  std::vector<std::size_t> calls_that_await(const std::vector<int>& ranks) const {
    std::vector<std::size_t> found;
    for (const int rank : ranks) {
      for (const std::size_t call : graph_.fronts[static_cast<std::size_t>(dump_of(rank))]) {
        if (graph_.calls[call].awaits()) found.push_back(call);
      }
    }
    return found;
  }

  /// Returns a message that a rank waits for from this one; null where there is none.
  const HoldingCall* message_that_awaits(int rank) const {
    const auto found = std::ranges::find_if(graph_.calls, [&](const HoldingCall& call) {
      return call.is_message && std::ranges::find(call.awaited, rank) != call.awaited.end();
    });
    return found == graph_.calls.end() ? nullptr : &*found;
  }

  void add_unreceived(const std::vector<std::size_t>& calls) {
    for (const std::size_t index : calls) {
      const HoldingCall& call = graph_.calls[index];
      if (!call.is_message || call.awaited.empty() || may_have_lost(call.awaited.front())) continue;
      is_unreceived_ = true;
      const int sender = call.waiting.front();
      if (const HoldingCall* other = message_that_awaits(sender); other != nullptr) {
        suspect(
            sender, SuspectKind::order,
            fmt::format("It waits in {}, to which the other rank has not come, and {} waits for it in {}.",
                        call_words(job_, call), ranks_words(other->waiting), call_words(job_, *other)));
        continue;
      }
      suspect(call.awaited.front(), SuspectKind::order,
              fmt::format("It has not come to {}, in which {} waits for it.", call_words(job_, call),
                          ranks_words(call.waiting)));
    }
  }

  /// Dumps of active calls alone count what has completed, and do not tell which calls these were. Where few
  /// members have completed a call by their count, in which the others wait, they may have made another one.
  /// Returns whether there are such members.
  bool add_counted(const HoldingCall& call) {
    const bool is_counted = job_.groups[call.group].has_status && !progresses_.has_completed_calls();
    if (call.is_message || !is_counted) return false;
    const RecordedCall& recorded = recording(call.dump).calls[static_cast<std::size_t>(call.call)];
    const Operation& operation = job_.operation(call.dump, recorded);
    // These may well end on a root, or on some members, before they end on others.
    if (operation.name == "broadcast" || operation.name == "scatter" || operation.name == "all_to_all")
      return false;
    std::vector<int> few;
    for (const int member : job_.groups[call.group].members)
      if (!std::binary_search(call.waiting.begin(), call.waiting.end(), member)) few.push_back(member);
    if (few.empty() || few.size() > call.waiting.size()) return false;
    std::sort(few.begin(), few.end());
    counted_ = fmt::format("{} {} completed {} by {} count, and {} {} in it", ranks_words(few),
                           few.size() == 1 ? "has" : "have", call_words(job_, call),
                           few.size() == 1 ? "its" : "their", ranks_words(call.waiting),
                           call.waiting.size() == 1 ? "waits" : "wait");
    std::vector<int> named = few;
    if (few.size() == call.waiting.size() || operation.kind == Operation::Kind::rooted)
      named.insert(named.end(), call.waiting.begin(), call.waiting.end());
    for (const int rank : named) suspect(rank, SuspectKind::order, capital(counted_) + ".");
    return true;
  }

  /// A call to which all have come. Where the recorder knew which devices have begun it, the others are
  /// named.
  void add_stuck(const HoldingCall& call) {
    const std::vector<int> behind = ranks_behind(call);
    const bool tells = !behind.empty();
    is_stuck_ = true;
    are_behind_ = are_behind_ || tells;
    std::vector<int> members = call.waiting;
    if (call.is_message && call.peer >= 0) members.push_back(call.peer);
    for (const int rank : tells ? behind : members)
      suspect(
          rank, SuspectKind::device,
          tells ? fmt::format("Its device has not begun {}, which others have begun.", call_words(job_, call))
                : stuck_words(job_, call));
  }

  /// The ranks whose devices have not begun a collective that the devices of others have begun.
  std::vector<int> ranks_behind(const HoldingCall& call) const {
    std::vector<int> behind;
    if (call.is_message) return behind;
    std::ranges::copy_if(call.waiting, std::back_inserter(behind),
                         [&](int rank) { return !has_started(rank, call); });
    return behind.size() < call.waiting.size() ? behind : std::vector<int>();
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

  const Job& job_;
  const Progresses& progresses_;
  const std::vector<Lag>& lags_;
  const WaitGraph& graph_;
  std::map<int, Suspect> suspects_;
  std::vector<std::vector<int>> circles_;
  std::vector<int> unknown_;
  std::vector<int> early_roots_;  // ranks whose dumps are early, and for which others wait
  bool is_stuck_ = false;
  bool are_behind_ = false;  // Suspects::are_behind
  bool is_ahead_ = false;
  std::size_t running_ = 0;  // Suspects::running
  bool is_unreceived_ = false;
  std::string missed_;                                // Suspects::missed
  std::string counted_;                               // Suspects::counted
  std::string facing_;                                // Suspects::facing
  std::optional<std::vector<OddProgram>> departing_;  // of the whole job, once a circle asks for them
  std::vector<OddProgram> departed_;                  // Suspects::departed
  bool are_alone_ = false;
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

Suspects suspects_of(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags,
                     const WaitGraph& graph) {
  return Chooser(job, progresses, lags, graph).choose();
}

}  // namespace verify
