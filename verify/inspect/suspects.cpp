#include "verify/inspect/suspects.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/inspect/suspect_rules.h"

namespace verify {

namespace {

// ---- whether the job ran on
//
// Whether a job ran while its dumps were written.
//
// In a job that hangs, every rank that is held waits for the ranks that keep the others waiting, directly or
// by others. So a job ran on where some ranks are in a collective that can end (stuck_calls.cpp), or wait for
// a rank whose dump was written early (early_dumps.h), and do not wait for a rank that seems to keep others
// waiting. That one is behind, and no more is known of it.
//
// Exact   Where all that are held wait for one rank, a job that runs looks like one that hangs: dumps do not
//         tell when they were written.

/// Whether every other rank with a whole dump that is not early waits for one of these ranks, directly or by
/// others, and these others are more; true, too, where one of these ranks has a dump that is cut.
bool do_all_wait_for(const Evidence& know, const std::vector<int>& ranks) {
  if (std::ranges::any_of(ranks, [&](int rank) { return know.is_cut(rank); })) return true;
  const std::vector<bool> waits = know.graph.waiting_for(ranks);
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
    std::vector<std::vector<std::size_t>> circles;
    std::vector<const HoldingCall*> stuck;
    for (std::vector<std::size_t>& component : final_components(know_.graph.edges)) {
      if (component.size() > 1) {
        circles.push_back(std::move(component));
      } else if (component.front() >= know_.graph.world) {
        stuck.push_back(&know_.graph.calls[component.front() - know_.graph.world]);
      } else {
        add_root(static_cast<int>(component.front()));
      }
    }
    add_idle_behind();
    add_idle_of_two();
    drop_explained_absent();
    prefer_circles_to_absent();
    prefer_idle();
    if (!found_.ranks.empty()) prefer_ranks_ahead(know_, found_);
    if (found_.ranks.empty()) {
      choose_held(circles, stuck);
    } else {
      leave_out_of_running_job(stuck);
    }
    return std::move(found_);
  }

 private:
  /// Chooses among ranks that are held, where nobody stands still.
  void choose_held(const std::vector<std::vector<std::size_t>>& circles,
                   const std::vector<const HoldingCall*>& stuck) {
    add_stuck_messages(know_, found_);
    if (found_.ranks.empty()) add_circle_suspects(know_, circles, found_);
    if (found_.ranks.empty()) add_stuck_calls(know_, stuck, found_);
    if (found_.running > 0) return;
    if (found_.ranks.empty()) add_idle_beside();
    if (found_.ranks.empty()) add_absent();
    if (found_.ranks.empty()) add_lone_sends();
    if (!found_.ranks.empty() || early_roots_.empty()) return;
    if (!do_all_wait_for(know_, early_roots_)) {
      found_.behind = early_roots_;
      return;
    }
    for (const int rank : early_roots_) found_.add(rank, SuspectKind::unknown, sentence("why_idle_early"));
  }

  /// Names nobody where the job ran while the dumps were written: where some ranks that wait for no suspect
  /// are in collectives that can end, or wait for early dumps that are not cut.
  void leave_out_of_running_job(const std::vector<const HoldingCall*>& stuck) {
    const std::vector<bool> waits = know_.graph.waiting_for(found_.all());
    const auto waits_for_suspect = [&](const HoldingCall& call) {
      return std::ranges::any_of(call.waiting,
                                 [&](int rank) { return waits[static_cast<std::size_t>(rank)]; });
    };
    const auto is_early_root = [&](int rank) {
      return std::ranges::find(early_roots_, rank) != early_roots_.end() && !know_.is_cut(rank);
    };
    const auto collectives = static_cast<std::size_t>(std::ranges::count_if(
        stuck, [&](const auto* call) { return can_end(know_, *call) && !waits_for_suspect(*call); }));
    const bool awaits_early = std::ranges::any_of(know_.graph.calls, [&](const HoldingCall& call) {
      return !waits_for_suspect(call) && std::ranges::any_of(call.targets(), is_early_root);
    });
    if (collectives == 0 && !awaits_early) return;
    found_.behind = found_.all();
    found_.ranks.clear();
    found_.running = collectives;
    if (found_.seen == Seen::ahead) found_.seen = Seen::kinds;
  }

  /// Where nothing holds a rank but a send that nobody receives, its peer is named.
  void add_lone_sends() {
    for (const JobCall& call : know_.progresses.pending()) {
      const PendingCalls& pending = know_.progresses.of(call.dump);
      if (!pending.front.empty() || !pending.lost.empty()) continue;
      const int peer = call.group().rank_at(call.operation().to);
      if (peer >= 0 && know_.is_idle(peer))
        found_.add(peer, SuspectKind::host,
                   sentence("why_lone_send", {{"rank", call.rank()}, {"group", group_words(call.group())}}));
    }
  }

  /// Where the rings have lost the calls that hold the ranks: ranks without a dump that are members of calls
  /// that are pending.
  void add_absent() {
    const std::vector<int> absent = know_.job.ranks_without_dump();
    for (const JobCall& call : know_.progresses.pending()) {
      if (!call.is_collective()) continue;
      for (const int rank : absent) {
        if (call.group().may_lack_members || call.group().has_member(rank))
          found_.add(rank, SuspectKind::absent,
                     sentence("why_gone_pending", {{"gone", words_of_absence(rank)}}));
      }
    }
  }

  std::vector<int> idle_ranks() const {
    std::vector<int> idle;
    for (const Recording& one : know_.job.recordings)
      if (know_.is_idle(one.rank)) idle.push_back(one.rank);
    return idle;
  }

  /// Where most ranks have pending calls and the dumps do not tell who is in these, few ranks without a
  /// pending call.
  void add_idle_beside() {
    const std::vector<int> idle = idle_ranks();
    std::set<std::size_t> held;
    for (const JobCall& call : know_.progresses.pending())
      if (call.group().may_lack_members) held.insert(call.dump);
    if (idle.size() >= held.size()) return;
    for (const int rank : idle) found_.add(rank, SuspectKind::host, sentence("why_idle_beside"));
  }

  /// A rank without a pending call that has not issued a collective that is pending on another member stands
  /// still, even if the others are held by something else before they come to it.
  void add_idle_behind() {
    std::vector<std::int64_t> furthest(know_.job.groups.size());  // that is pending
    const auto add = [&](const CollectiveId& id) {
      furthest[id.group] = std::max(furthest[id.group], id.sequence);
    };
    for (const std::size_t dump : know_.job.dumps())
      std::ranges::for_each(know_.progresses.of(dump).lost, add);
    for (const JobCall& call : know_.progresses.pending())
      if (call.is_collective()) add(call.id());
    for (std::uint32_t group = 0; group < furthest.size(); ++group) {
      if (furthest[group] <= 0) continue;
      for (const int member : know_.job.groups[group].members) {
        if (!know_.is_idle(member)) continue;
        const std::int64_t issued = know_.last_issued(member, group);
        if (issued < furthest[group])
          found_.add(member, SuspectKind::host,
                     sentence("why_idle_behind", {{"issued", issued},
                                                  {"group", group_words(know_.job.groups[group])},
                                                  {"sequence", furthest[group]}}));
      }
    }
  }

  /// Of two ranks, one whose device is behind may have an early dump, and the other one, without a pending
  /// call, has not gone on: it may as well stand still itself.
  void add_idle_of_two() {
    if (know_.job.world_size != 2 || found_.ranks.size() != 1 || know_.job.recordings.size() != 2) return;
    const Suspect& one = found_.ranks.begin()->second;
    if (one.kind == SuspectKind::device && know_.is_idle(1 - one.rank))
      found_.add(1 - one.rank, SuspectKind::host, sentence("why_idle_of_two", {{"rank", one.rank}}));
  }

  /// A rank without a dump for which others wait may wait, too: for a rank that is known to stand still, if
  /// it is in a call that waits for one, or in a group, other than the default one, of a rank that does.
  void drop_explained_absent() {
    std::vector<int> ends;
    for (const auto& [rank, one] : found_.ranks)
      if (one.kind != SuspectKind::absent) ends.push_back(rank);
    if (ends.empty()) return;
    for (const Recording& one : know_.job.recordings) {
      if (know_.may_have_lost(one.rank) || know_.has_lost_call_of(one.rank))
        ends.push_back(one.rank);  // it may wait for any rank
    }
    const std::set<int> explained = members_explained(know_.graph.waiting_for(ends));
    std::erase_if(found_.ranks, [&](const auto& one) {
      const bool goes = one.second.kind == SuspectKind::absent && explained.contains(one.first);
      if (goes) found_.unknown.push_back(one.first);
      return goes;
    });
  }

  /// Returns the members of groups in whose collectives ranks wait for some that wait, and of groups other
  /// than the default one with a rank that waits.
  std::set<int> members_explained(const std::vector<bool>& waits) const {
    const auto does_wait = [&](int rank) { return waits[static_cast<std::size_t>(rank)]; };
    std::set<int> explained;
    for (const HoldingCall& call : know_.graph.calls) {
      const std::vector<int>& members = know_.job.groups[call.group].members;
      if (!call.is_message && std::ranges::any_of(call.targets(), does_wait))
        explained.insert(members.begin(), members.end());
    }
    for (const JobGroup& group : know_.job.groups) {
      if (!group.is_default() && std::ranges::any_of(group.members, does_wait))
        explained.insert(group.members.begin(), group.members.end());
    }
    return explained;
  }

  /// Names others than ranks without a dump, which may wait for them.
  void forget_absent() {
    for (const int rank : found_.all()) found_.unknown.push_back(rank);
    found_.ranks.clear();
  }

  /// A rank that is gone keeps others waiting, but not in a circle: ranks with a dump that wait for each
  /// other do so whatever one without a dump has done, and it may wait for them.
  void prefer_circles_to_absent() {
    if (!are_all_absent()) return;
    Suspects in_circles;
    add_circle_suspects(know_, final_components(know_.graph.edges, true), in_circles);
    if (in_circles.ranks.empty()) return;
    forget_absent();
    in_circles.unknown = std::move(found_.unknown);
    found_ = std::move(in_circles);
  }

  bool are_all_absent() const {
    return !found_.ranks.empty() && std::ranges::all_of(found_.ranks, [](const auto& one) {
      return one.second.kind == SuspectKind::absent;
    });
  }

  /// Ranks without a dump may wait for a rank that is known to stand still, although no call that is known
  /// waits for that one.
  void prefer_idle() {
    if (!are_all_absent()) return;
    std::vector<int> idle = idle_ranks();
    std::erase_if(idle, [&](int rank) {
      const Recording& own = *know_.job.find_recording(rank);
      return !own.is_whole() && !own.calls.empty();
    });
    if (idle.empty() || 2 * idle.size() > know_.job.recordings.size()) return;
    forget_absent();
    for (const int rank : idle) found_.add(rank, SuspectKind::host, sentence("why_idle"));
  }

  std::string words_of_absence(int rank) const {
    const BlankDump* const blank = know_.job.find_blank(rank);
    if (blank != nullptr) return sentence("gone_blank", {{"blank", verify::words_of(*blank)}});
    return sentence(know_.job.dump_of(rank) ? "gone_middle" : "gone");
  }

  void add_root(int rank) {
    const bool is_awaited = know_.graph.is_awaited[static_cast<std::size_t>(rank)];
    if (know_.graph.is_unknown[static_cast<std::size_t>(rank)]) {
      if (!is_awaited) return;
      if (know_.is_early(rank)) return early_roots_.push_back(rank);
      return found_.add(rank, SuspectKind::absent,
                        sentence("why_gone_awaited", {{"gone", words_of_absence(rank)}}));
    }
    const std::string& lag = know_.lags[*know_.job.dump_of(rank)];
    if (!lag.empty()) return found_.add(rank, SuspectKind::device, lag);
    if (is_awaited && !is_awaited_by_devices_alone(rank))
      found_.add(rank, SuspectKind::host, reason_of_idle(rank));
  }

  /// Whether nobody waits for a rank but in messages of ranks whose own devices have stopped: such a message
  /// is pending there, whatever the rank has done.
  bool is_awaited_by_devices_alone(int rank) const {
    const auto has_stopped = [&](int waiting) {
      const auto dump = know_.job.dump_of(waiting);
      return dump && !know_.lags[*dump].empty();
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
    if (chosen == nullptr) return sentence("why_awaited");
    const std::int64_t issued = know_.last_issued(rank, chosen->group);
    return sentence(chosen->is_message ? "why_awaited_message"
                    : issued == 0      ? "why_awaited_no_call"
                                       : "why_awaited_call",
                    {{"ranks", chosen->waiting},
                     {"group", group_words(know_.job.groups[chosen->group])},
                     {"issued", issued},
                     {"sequence", chosen->sequence}});
  }

  const Evidence know_;
  Suspects found_;
  std::vector<int> early_roots_;  // ranks whose dumps are early, and for which others wait
};

// ---- how the wait spreads

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

const char* suspect_kind_name(SuspectKind kind) {
  constexpr const char* kNames[] = {"host", "device", "order", "absent", "unknown"};
  return kNames[static_cast<std::size_t>(kind)];
}

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
    const Lags lags = lags_of(job, progresses, all_to_alls);
    graph = wait_graph_of(job, progresses, lags);
    suspects = Chooser({job, progresses, lags, graph}).choose();
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
