#include "verify/inspect/suspects.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/inspect/calls_ahead.h"
#include "verify/inspect/circle_suspects.h"
#include "verify/inspect/strong_components.h"
#include "verify/inspect/stuck_calls.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

// ---- whether the job ran on
//
// Whether a job ran while its dumps were written.
//
// In a job that hangs, every rank that is held waits for the ranks that keep the others waiting, directly or
// by others. So a job ran on where some ranks are in a collective that can end (stuck_calls.h), or wait for
// a rank whose dump was written early (early_dumps.h), and do not wait for a rank that seems to keep others
// waiting. That one is behind, and no more is known of it.
//
// Exact   Where all that are held wait for one rank, a job that runs looks like one that hangs: dumps do not
//         tell when they were written.

/// What some ranks wait for that wait for no suspect.
struct SignsOfRunning {
  std::size_t collectives = 0;  // that can end
  std::vector<int> early;       // ranks whose dumps were written early, and are not cut
  bool any() const { return collectives > 0 || !early.empty(); }
};

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

/// Returns these signs: `components` are the single calls at the ends of the graph, and `early_roots` the
/// ranks there whose dumps are early.
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

/// Whether every other rank with a whole dump that is not early waits for one of these ranks, directly or by
/// others, and these others are more; true, too, where one of these ranks has a dump that is cut.
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

// ---- suspects

class Chooser {
 public:
  explicit Chooser(const Evidence& know) : know_(know) {}

  Suspects choose() {
    choose_suspects();
    for (auto& [rank, one] : suspects_) found_.ranks.push_back(std::move(one));
    return std::move(found_);
  }

 private:
  void choose_suspects() {
    const auto world = static_cast<std::size_t>(know_.job.world_size);
    std::vector<std::vector<std::size_t>> circles, stuck;
    for (std::vector<std::size_t>& component : final_components(know_.graph.edges)) {
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
    prefer_circles_to_absent();
    prefer_idle();
    prefer_ranks_ahead();
    if (!suspects_.empty()) return leave_out_of_running_job(stuck);
    add_stuck_messages();
    if (!suspects_.empty()) return;
    take(circle_suspects(know_, circles));
    if (!suspects_.empty()) return;
    take(stuck_calls(know_, stuck));
    if (found_.running > 0) return;
    if (suspects_.empty()) add_idle_beside();
    if (suspects_.empty()) add_absent();
    if (suspects_.empty()) add_lone_sends();
    if (!suspects_.empty() || early_roots_.empty()) return;
    if (!do_all_wait_for(know_, early_roots_)) {
      found_.behind = early_roots_;
      return;
    }
    for (const int rank : early_roots_)
      suspect(rank, SuspectKind::unknown, "Its dump was written early, and other ranks wait for it.");
  }

  /// Names nobody where the job ran while the dumps were written.
  void leave_out_of_running_job(const std::vector<std::vector<std::size_t>>& stuck) {
    std::vector<int> ranks;
    for (const auto& [rank, one] : suspects_) ranks.push_back(rank);
    const SignsOfRunning signs = signs_of_running(know_, ranks, stuck, early_roots_);
    if (!signs.any()) return;
    suspects_.clear();
    found_.is_ahead = false;
    found_.running = signs.collectives;
    found_.behind = std::move(ranks);
  }

  void take(CircleSuspects circles) {
    suspects_ = std::move(circles.ranks);
    found_.circles = std::move(circles.circles);
    found_.are_alone = circles.are_alone;
    found_.missed = std::move(circles.missed);
    found_.facing = std::move(circles.facing);
    found_.odd_peer = std::move(circles.odd_peer);
    found_.uneven = std::move(circles.uneven);
    found_.departed = std::move(circles.departed);
  }

  void take(StuckCalls stuck) {
    suspects_ = std::move(stuck.ranks);
    found_.is_stuck = stuck.is_stuck;
    found_.are_behind = stuck.are_behind;
    found_.is_unreceived = stuck.is_unreceived;
    found_.counted = std::move(stuck.counted);
    found_.running = stuck.running;
  }

  /// Messages that both ends wait for, with nothing pending before them.
  void add_stuck_messages() {
    for (const StuckMessage& one : stuck_messages_of(know_.job, know_.progresses, know_.lags)) {
      found_.is_stuck = true;
      suspect(one.rank, SuspectKind::device,
              fmt::format("Both halves of {} are pending, and nothing is pending before them.",
                          call_words(know_.job, HoldingCall{.group = one.group,
                                                            .sequence = one.sequence,
                                                            .is_message = true,
                                                            .dump = one.dump,
                                                            .call = one.call})));
    }
  }

  /// Where few ranks wait in a call that all others have not made before they ended, the few are named.
  void prefer_ranks_ahead() {
    if (suspects_.empty()) return;
    const std::vector<RankAhead> ahead = ranks_ahead(know_.job, know_.progresses, know_.graph);
    if (ahead.empty()) return;
    suspects_.clear();
    found_.is_ahead = true;
    for (const RankAhead& one : ahead)
      suspect(one.rank, one.is_awaited ? SuspectKind::host : SuspectKind::order, one.reason);
  }

  /// Where nothing holds a rank but a send that nobody receives, its peer is named.
  void add_lone_sends() {
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump) {
      const PendingCalls& pending = know_.progresses.of(dump);
      if (!pending.front.empty() || !pending.lost.empty()) continue;
      for (const std::uint32_t index : pending.calls) {
        const RecordedCall& call = know_.recording(dump).calls[index];
        const JobGroup& group = know_.job.groups[know_.job.group_of(dump, call)];
        const int peer = group.rank_at(know_.job.operation(dump, call).to);
        if (peer < 0 || know_.dump_of(peer) < 0 || !is_idle(static_cast<std::size_t>(know_.dump_of(peer))))
          continue;
        suspect(peer, SuspectKind::host,
                fmt::format("It has no pending call, and rank {} has sent it a message in {} that it has not "
                            "received.",
                            know_.rank_of(dump), group_words(group)));
      }
    }
  }

  /// Where the rings have lost the calls that hold the ranks: ranks without a dump that are members of calls
  /// that are pending.
  void add_absent() {
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump) {
      for (const std::uint32_t index : know_.progresses.of(dump).calls) {
        const RecordedCall& call = know_.recording(dump).calls[index];
        if (!know_.job.is_collective(dump, call)) continue;
        for (const int member : possible_members(know_.job.groups[know_.job.group_of(dump, call)])) {
          if (know_.dump_of(member) < 0)
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
    std::vector<int> all(static_cast<std::size_t>(know_.job.world_size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// Where most ranks have pending calls and the dumps do not tell who is in these, few ranks without a
  /// pending call.
  void add_idle_beside() {
    std::vector<int> idle;
    std::size_t held = 0;
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump) {
      const std::vector<std::uint32_t>& calls = know_.progresses.of(dump).calls;
      if (is_idle(dump)) idle.push_back(know_.rank_of(dump));
      held += std::ranges::any_of(calls, [&](std::uint32_t index) {
        return know_.job.groups[know_.job.group_of(dump, know_.recording(dump).calls[index])]
            .may_lack_members;
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
    std::vector<std::int64_t> furthest_pending(know_.job.groups.size());
    const auto add = [&](std::uint32_t group, std::int64_t sequence) {
      furthest_pending[group] = std::max(furthest_pending[group], sequence);
    };
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump) {
      for (const CollectiveId& id : know_.progresses.of(dump).lost) add(id.group, id.sequence);
      for (const std::uint32_t index : know_.progresses.of(dump).calls) {
        const RecordedCall& call = know_.recording(dump).calls[index];
        if (know_.job.is_collective(dump, call)) add(know_.job.group_of(dump, call), call.sequence);
      }
    }
    for (std::uint32_t group = 0; group < know_.job.groups.size(); ++group) {
      if (furthest_pending[group] > 0) add_idle_behind(group, furthest_pending[group]);
    }
  }

  /// Of two ranks, one whose device is behind may have an early dump, and the other one, without a pending
  /// call, has not gone on: it may as well stand still itself.
  void add_idle_of_two() {
    if (know_.job.world_size != 2 || suspects_.size() != 1 || know_.job.recordings.size() != 2) return;
    const Suspect one = suspects_.begin()->second;
    const auto other = static_cast<std::size_t>(know_.dump_of(1 - one.rank));
    if (one.kind == SuspectKind::device && is_idle(other))
      suspect(1 - one.rank, SuspectKind::host,
              fmt::format("It has no pending call, and has gone on from a call that is pending on rank {}.",
                          one.rank));
  }

  void add_idle_behind(std::uint32_t group, std::int64_t sequence) {
    for (const int member : know_.job.groups[group].members) {
      if (know_.dump_of(member) < 0 || !is_idle(static_cast<std::size_t>(know_.dump_of(member)))) continue;
      const std::int64_t issued =
          know_.progresses.last_issued(static_cast<std::size_t>(know_.dump_of(member)), group);
      if (issued < sequence)
        suspect(member, SuspectKind::host,
                fmt::format("It has no pending call: it has issued {} of {}, and call {} of it is pending on "
                            "another rank.",
                            counted(issued, "call"), group_words(know_.job.groups[group]), sequence));
    }
  }

  /// A rank without a dump for which others wait may wait, too: for a rank that is known to stand still, if
  /// it is in a call that waits for one, or in a group, other than the default one, of a rank that does.
  void drop_explained_absent() {
    std::vector<bool> waits(static_cast<std::size_t>(know_.job.world_size));
    std::vector<bool> is_explained(know_.job.groups.size());
    std::vector<int> next;
    for (const auto& [rank, one] : suspects_) {
      if (one.kind != SuspectKind::absent) next.push_back(rank);
    }
    if (next.empty()) return;
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump) {
      const int rank = know_.rank_of(dump);
      if (know_.may_have_lost(rank) || know_.has_lost_call_of(rank))
        next.push_back(rank);  // it may wait for any rank
    }
    find_waiting(std::move(next), waits, is_explained);
    const std::set<int> explained = members_explained(waits, is_explained);
    std::erase_if(suspects_, [&](const auto& one) {
      const bool goes = one.second.kind == SuspectKind::absent && explained.contains(one.first);
      if (goes) found_.unknown.push_back(one.first);
      return goes;
    });
  }

  /// Marks the ranks that wait for these, directly or by others, and the groups of the collectives in which
  /// they do.
  void find_waiting(std::vector<int> next, std::vector<bool>& waits, std::vector<bool>& is_explained) const {
    const auto callers = know_.graph.callers();
    for (const int rank : next) waits[static_cast<std::size_t>(rank)] = true;
    while (!next.empty()) {
      const int rank = next.back();
      next.pop_back();
      for (const std::size_t index : callers[static_cast<std::size_t>(rank)]) {
        const HoldingCall& call = know_.graph.calls[index];
        if (!call.is_message) is_explained[call.group] = true;
        for (const int waiting : call.waiting) {
          if (waits[static_cast<std::size_t>(waiting)]) continue;
          waits[static_cast<std::size_t>(waiting)] = true;
          next.push_back(waiting);
        }
      }
    }
  }

  /// Returns the members of these groups, and of groups other than the default one with a rank that waits.
  std::set<int> members_explained(const std::vector<bool>& waits,
                                  const std::vector<bool>& is_explained) const {
    std::set<int> explained;
    for (std::size_t i = 0; i < know_.job.groups.size(); ++i) {
      const std::vector<int>& members = know_.job.groups[i].members;
      const bool is_default = know_.job.groups[i].description == "default_pg";
      const bool has_waiting = !is_default && std::ranges::any_of(members, [&](int member) {
        return waits[static_cast<std::size_t>(member)];
      });
      if (is_explained[i] || has_waiting) explained.insert(members.begin(), members.end());
    }
    return explained;
  }

  /// A rank that is gone keeps others waiting, but not in a circle: ranks with a dump that wait for each
  /// other do so whatever one without a dump has done, and it may wait for them.
  void prefer_circles_to_absent() {
    if (!are_all_absent()) return;
    std::vector<std::vector<std::size_t>> circles = final_circles(know_.graph.edges);
    CircleSuspects found = circle_suspects(know_, circles);
    if (found.ranks.empty()) return;
    for (const auto& [rank, one] : suspects_) found_.unknown.push_back(rank);
    take(std::move(found));
  }

  bool are_all_absent() const {
    return !suspects_.empty() && std::ranges::all_of(suspects_, [](const auto& one) {
      return one.second.kind == SuspectKind::absent;
    });
  }

  /// Ranks without a dump may wait for a rank that is known to stand still, although no call that is known
  /// waits for that one.
  void prefer_idle() {
    if (!are_all_absent()) return;
    std::vector<int> idle;
    for (std::size_t dump = 0; dump < know_.job.recordings.size(); ++dump)
      if (is_idle(dump) && (know_.recording(dump).is_whole() || know_.recording(dump).calls.empty()))
        idle.push_back(know_.rank_of(dump));
    if (idle.empty() || 2 * idle.size() > know_.job.recordings.size()) return;
    for (const auto& [rank, one] : suspects_) found_.unknown.push_back(rank);
    suspects_.clear();
    for (const int rank : idle)
      suspect(rank, SuspectKind::host,
              "It has no pending call, and other ranks wait for ranks without a dump.");
  }

  std::string words_of_absence(int rank) const {
    const BlankDump* const blank = know_.job.find_blank(rank);
    if (blank != nullptr) return fmt::format("Its dump {}", words_of(*blank));
    return know_.dump_of(rank) < 0 ? "It has no dump" : "Its dump ends in the middle";
  }

  bool is_idle(std::size_t dump) const {
    return !know_.recording(dump).is_truncated && !know_.job.is_early[dump] &&
           know_.progresses.of(dump).calls.empty() && know_.progresses.of(dump).lost.empty();
  }

  void suspect(int rank, SuspectKind kind, std::string reason) {
    suspects_.try_emplace(rank, Suspect{rank, kind, std::move(reason)});
  }

  void add_root(int rank) {
    const bool is_awaited = know_.graph.is_awaited[static_cast<std::size_t>(rank)];
    if (know_.graph.is_unknown[static_cast<std::size_t>(rank)]) {
      if (is_awaited && know_.is_early(rank)) return early_roots_.push_back(rank);
      if (is_awaited)
        suspect(rank, SuspectKind::absent,
                fmt::format("{}, and other ranks wait for it: it may have died.", words_of_absence(rank)));
      return;
    }
    const auto dump = static_cast<std::size_t>(know_.dump_of(rank));
    if (know_.lags[dump].is_device) {
      suspect(rank, SuspectKind::device, know_.lags[dump].reason);
    } else if (is_awaited && !is_awaited_by_devices_alone(rank)) {
      suspect(rank, SuspectKind::host, reason_of_idle(rank));
    }
  }

  /// Whether nobody waits for a rank but in messages of ranks whose own devices have stopped: such a message
  /// is pending there, whatever the rank has done.
  bool is_awaited_by_devices_alone(int rank) const {
    const auto has_stopped = [&](int waiting) {
      return know_.dump_of(waiting) >= 0 &&
             know_.lags[static_cast<std::size_t>(know_.dump_of(waiting))].is_device;
    };
    return std::ranges::all_of(know_.graph.calls, [&](const HoldingCall& call) {
      const bool is_for_rank = std::ranges::binary_search(call.awaited, rank);
      return !is_for_rank || (call.is_message && std::ranges::all_of(call.waiting, has_stopped));
    });
  }

  /// Says how a rank without a pending call is behind those that wait for it, in a collective if there is
  /// one.
  std::string reason_of_idle(int rank) const {
    const HoldingCall* chosen = nullptr;
    for (const HoldingCall& call : know_.graph.calls) {
      const bool is_for_rank = std::ranges::binary_search(call.awaited, rank);
      if (is_for_rank && (chosen == nullptr || (chosen->is_message && !call.is_message))) chosen = &call;
    }
    if (chosen == nullptr) return "It has no pending call, and others wait for it.";
    const std::string group = group_words(know_.job.groups[chosen->group]);
    const std::string who = ranks_words(chosen->waiting) + (chosen->waiting.size() == 1 ? " waits" : " wait");
    if (chosen->is_message)
      return fmt::format("It has no pending call, and {} for a message of {}.", who, group);
    const std::int64_t issued =
        know_.progresses.last_issued(static_cast<std::size_t>(know_.dump_of(rank)), chosen->group);
    const std::string done = issued == 0
                                 ? fmt::format("its dump has no call of {}", group)
                                 : fmt::format("it has issued {} of {}", counted(issued, "call"), group);
    return fmt::format("It has no pending call: {}, and {} in call {}.", done, who, chosen->sequence);
  }

  const Evidence know_;
  Suspects found_;
  std::map<int, Suspect> suspects_;
  std::vector<int> early_roots_;  // ranks whose dumps are early, and for which others wait
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
  return Chooser({job, progresses, lags, graph}).choose();
}

}  // namespace verify