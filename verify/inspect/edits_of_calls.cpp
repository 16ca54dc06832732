#include <algorithm>
#include <map>
#include <set>

#include "verify/inspect/edits.h"
#include "verify/recorded_job/call_meaning.h"

namespace verify {

namespace {

// ---- altered

/// Whether two groups of one kind differ in one call in one way, as those of the ranks of a replica.
bool are_sisters(const Job& job, const Disagreement& one, const Disagreement& other) {
  const auto calls_of = [](const Disagreement& of) {
    std::vector<std::string> calls;
    for (const Disagreement::Party& party : of.parties) calls.push_back(party.call);
    if (!of.has_majority()) std::ranges::sort(calls);
    return calls;
  };
  return one.group != other.group &&
         job.groups[one.group].description == job.groups[other.group].description && one.what == other.what &&
         one.is_message == other.is_message && one.has_majority() == other.has_majority() &&
         calls_of(one) == calls_of(other);
}

/// Leaves the ranks that depart from the calls of their pipeline stages, if they are some of the ranks.
void tell_parties_apart(const Evidence& know, Explanation& found) {
  std::map<int, Suspect> departing;
  for (const OddProgram& one : odd_programs(know.job, Elements::compared)) {
    const auto known = found.ranks.find(one.rank);
    if (known != found.ranks.end()) departing.insert(*known);
  }
  if (departing.empty() || departing.size() == found.ranks.size()) return;
  found.ranks = std::move(departing);
  found.departs = true;
}

// ---- older

/// Whether the lags are those of devices: few ranks lag, and all others wait for them.
bool are_of_devices(const Evidence& know, const std::vector<int>& lagging) {
  constexpr std::size_t kLeastRanks = 4, kShare = 8;
  const std::size_t ranks = know.job.recordings.size();
  if (lagging.empty()) return true;
  if (ranks < kLeastRanks || lagging.size() > std::max<std::size_t>(1, ranks / kShare)) return false;
  const std::vector<bool> waits = know.graph.waiting_for(lagging);
  return std::ranges::all_of(know.job.recordings, [&](const Recording& one) {
    return one.is_truncated || waits[static_cast<std::size_t>(one.rank)];
  });
}

bool is_of_several(const HoldingCall& call) { return !call.is_message && call.waiting.size() > 1; }

/// Whether a call holds its ranks itself: nothing that is pending before it may be lost, on them or on the
/// peer of a message.
bool is_certain(const Evidence& know, const HoldingCall& call) {
  return call.call >= 0 && !know.job.groups[call.group].may_lack_members &&
         (call.peer < 0 || !know.may_have_lost(call.peer)) &&
         std::ranges::none_of(
             call.waiting, [&](int rank) { return know.may_have_lost(rank) || know.has_lost_call_of(rank); });
}

/// Returns the calls that hold the ranks of a call and wait for others.
std::vector<const HoldingCall*> calls_that_await(const Evidence& know, const HoldingCall& call) {
  std::vector<const HoldingCall*> found;
  for (const int rank : call.waiting) {
    for (const std::size_t other : know.front_of(rank))
      if (know.graph.calls[other].awaits()) found.push_back(&know.graph.calls[other]);
  }
  return found;
}

// ---- extra

class ExtraFinder {
 public:
  ExtraFinder(const Evidence& know, Explanation& found) : know_(know), found_(found) {}

  void find() {
    if (know_.ends.stopped.empty() || !knows_all()) return;
    std::vector<const HoldingCall*> calls;
    std::set<int> ranks;
    for (const HoldingCall& call : know_.graph.calls) {
      const auto is_behind = [&](int rank) { return know_.is_idle(rank) || waits_for_those_in(call, rank); };
      if (idle_of(call).empty() || !std::ranges::all_of(call.awaited, is_behind)) continue;
      calls.push_back(&call);
      ranks.insert(call.waiting.begin(), call.waiting.end());
    }
    if (calls.empty() || 2 * ranks.size() >= know_.job.recordings.size()) return;
    Explanation extra;
    for (const HoldingCall* const call : calls)  // another call than a message tells of its rank
      if (!call->is_message && !add_of(*call, ranks.size(), extra)) return;
    if (extra.ranks.size() >= ranks.size()) found_ = std::move(extra);
  }

 private:
  /// Adds the ranks that wait in a call. Returns whether the others have made exactly the calls before it.
  bool add_of(const HoldingCall& call, std::size_t ahead, Explanation& extra) const {
    if (call.waiting.size() > idle_of(call).size() || !call.completed.empty()) return false;
    const std::size_t behind = ranks_one_call_behind(call);
    const bool is_tie = behind == 1 && ahead == 1 && are_most_idle();
    if (behind <= ahead && !is_tie) return false;
    for (const int rank : call.waiting) add(call, rank, extra);
    for (const int rank : behind > 1 ? std::vector<int>() : idle_of(call))
      extra.add(rank, SuspectKind::host, {.sentence = "why_not_come", .call = call});
    return true;
  }

  void add(const HoldingCall& call, int rank, Explanation& extra) const {
    const std::int64_t issued = std::max(know_.last_issued(rank, call.group), call.sequence);
    extra.add(rank, SuspectKind::order,
              {.sentence = "why_ahead",
               .others = idle_of(call),
               .call = call,
               .group = call.group,
               .n = issued - call.sequence + 1,
               .m = call.sequence - 1});
  }

  /// Whether every rank has a whole dump that has all its pending calls.
  bool knows_all() const {
    const auto is_known = [&](std::size_t dump) {
      return !know_.job.recordings[dump].is_truncated && know_.progresses.of(dump).lost.empty();
    };
    return std::ranges::none_of(know_.graph.is_unknown, std::identity()) &&
           std::ranges::all_of(know_.job.dumps(), is_known);
  }

  std::vector<int> idle_of(const HoldingCall& call) const {
    std::vector<int> idle = call.awaited;
    std::erase_if(idle, [&](int rank) { return !know_.is_idle(rank); });
    return idle;
  }

  bool are_most_idle() const {
    const auto idle = static_cast<std::size_t>(std::ranges::count_if(
        know_.job.recordings, [&](const Recording& one) { return know_.is_idle(one.rank); }));
    return 3 * idle > 2 * know_.job.recordings.size();
  }

  /// Whether a rank waits only for ranks that wait in a call.
  bool waits_for_those_in(const HoldingCall& call, int rank) const {
    const std::vector<std::size_t>& front = know_.front_of(rank);
    return !front.empty() && std::ranges::all_of(front, [&](std::size_t held_by) {
      const std::vector<int>& awaited = know_.graph.calls[held_by].awaited;
      return !awaited.empty() && std::ranges::includes(call.waiting, awaited);
    });
  }

  /// Whether the groups are of one kind and of one stage, so that their members make the same calls.
  bool are_alike(const JobGroup& a, const JobGroup& b) const {
    return a.kind == b.kind && a.description == b.description && a.members.size() == b.members.size() &&
           know_.job.dump_of(a.members.front()) && know_.job.dump_of(b.members.front()) &&
           know_.stage_of(a.members.front()) == know_.stage_of(b.members.front());
  }

  /// Returns how many ranks without a pending call, in the group of a call or in one like it, have made
  /// exactly the calls before it; 0 where one of them has not.
  std::size_t ranks_one_call_behind(const HoldingCall& call) const {
    const std::vector<JobGroup>& groups = know_.job.groups;
    std::size_t behind = 0;
    for (const Recording& one : know_.job.recordings) {
      if (!know_.is_idle(one.rank)) continue;
      for (const GroupOfRank& own : know_.job.groups_of[*know_.job.dump_of(one.rank)]) {
        if (own.group != call.group && !are_alike(groups[own.group], groups[call.group])) continue;
        if (know_.last_issued(one.rank, own.group) + 1 != call.sequence) return 0;
        ++behind;
      }
    }
    return behind;
  }

  const Evidence& know_;
  Explanation& found_;
};

// ---- unmet

/// The messages at which ranks are, by dump.
using FirstMessages = std::map<std::size_t, std::vector<JobCall>>;

/// Returns the first pending message of each rank, with its batch. In groups of one rank nobody is awaited.
FirstMessages first_messages(const Evidence& know) {
  FirstMessages first_of;
  for (const std::size_t dump : know.job.dumps()) {
    if (know.progresses.may_have_lost(dump) || know.snapshots.lags[dump]) continue;
    const PendingCalls& pending = know.progresses.of(dump);
    const auto first = std::ranges::find_if(
        pending.calls, [](const JobCall& call) { return call.group().members.size() > 1; });
    if (first == pending.calls.end() || !first->operation().is_message()) continue;
    const bool is_in_front = std::ranges::find(pending.front, *first) != pending.front.end();
    first_of[dump] = is_in_front ? pending.front : std::vector<JobCall>{*first};
  }
  return first_of;
}

bool has_other_half(const Evidence& know, const FirstMessages& first, const JobCall& call) {
  const auto dump = call.peer() < 0 ? std::nullopt : know.job.dump_of(call.peer());
  const auto there = dump ? first.find(*dump) : first.end();
  return there != first.end() && std::ranges::any_of(there->second, [&](const JobCall& other) {
           const auto own = know.progresses.messages().number_of(call);
           const auto theirs = know.progresses.messages().number_of(other);
           return call.is_other_half_of(other) && (!own || !theirs || *own == *theirs);
         });
}

// ---- unended

/// Returns the ranks whose devices have not begun a collective that the devices of others have begun.
std::vector<int> ranks_not_begun(const Evidence& know, const HoldingCall& call) {
  std::vector<int> behind = call.waiting;
  std::erase_if(behind, [&](int rank) {
    const std::vector<JobCall>& front = know.progresses.of(*know.job.dump_of(rank)).front;
    const auto own = std::ranges::find(front, call.id(), &JobCall::id);
    return own != front.end() && (*own)->state == CallState::started;
  });
  return !call.is_message && behind.size() < call.waiting.size() ? behind : std::vector<int>();
}

using RanksByLine = std::map<std::string, std::vector<int>>;

RanksByLine lines_of(const Evidence& know, const CollectiveId& id, const std::vector<int>& ranks) {
  RanksByLine lines;
  for (const int rank : ranks) {
    const auto call = know.job.find_call(*know.job.dump_of(rank), id);
    if (call) lines[line_of(*call)].push_back(rank);
  }
  return lines;
}

/// Returns the ranks that make a call in other lines than most of its ranks, and the calls before it in the
/// same ones; none where a line is not known, or where the call before it is not.
std::vector<int> ranks_in_other_lines(const Evidence& know, const HoldingCall& call) {
  if (call.is_message || call.sequence < 2) return {};
  const RanksByLine lines = lines_of(know, call.id(), call.waiting);
  if (lines.size() < 2 || lines.contains("")) return {};
  for (std::int64_t before = call.sequence - 1; before > 0; --before) {
    const RanksByLine earlier = lines_of(know, {call.group, before}, call.waiting);
    if (earlier.empty() || earlier.contains("")) break;
    if (earlier.size() > 1) return {};
    if (before == call.sequence - 2) break;  // two calls are enough to tell that the ranks share their lines
  }
  const auto size_of = [](const auto& party) { return party.second.size(); };
  const auto most = std::ranges::max_element(lines, {}, size_of);
  if (2 * most->second.size() <= call.waiting.size()) return {};
  std::vector<int> others;
  for (const auto& [line, ranks] : lines)
    if (line != most->first) others.insert(others.end(), ranks.begin(), ranks.end());
  std::ranges::sort(others);
  return others;
}

void add_unreceived(const Evidence& know, const HoldingCall& call, Explanation& found) {
  if (!call.is_message || call.awaited.empty() || !is_certain(know, call)) return;
  const int sender = call.waiting.front();
  found.kind = EditKind::unreceived;
  const HoldingCall* const other = know.message_that_awaits(sender);
  if (other == nullptr) {
    found.add(call.awaited.front(), SuspectKind::order,
              {.sentence = "why_unreceived", .ranks = call.waiting, .call = call});
  } else {
    found.add(sender, SuspectKind::order,
              {.sentence = "why_unreceived_own", .ranks = other->waiting, .call = call, .other = *other});
  }
}

void add_unended(const Evidence& know, const HoldingCall& call, Explanation& found) {
  const std::vector<int> relined = ranks_in_other_lines(know, call), behind = ranks_not_begun(know, call);
  found.kind = !relined.empty() ? EditKind::relined : !behind.empty() ? EditKind::unbegun : EditKind::unended;
  std::vector<int> ranks = !relined.empty() ? relined : !behind.empty() ? behind : call.waiting;
  if (call.is_message && call.peer >= 0) ranks.push_back(call.peer);
  const bool is_order = !relined.empty();
  for (const int rank : ranks) {
    Facts facts{.sentence = call.completed.empty() ? "stuck_nowhere" : "stuck_for_some",
                .ranks = call.waiting,
                .others = call.completed,
                .call = call};
    if (is_order) {
      facts.sentence = "why_relined";
      facts.other = holding_call_of(*know.job.find_call(*know.job.dump_of(rank), call.id()));
    } else if (!behind.empty()) {
      facts.sentence = "why_not_begun";
    }
    found.add(rank, is_order ? SuspectKind::order : SuspectKind::device, std::move(facts));
  }
  found.facts = {.ranks = ranks, .call = call};
}

/// What of the calls to which all have come is known: which hold their ranks, which of these tell more, and
/// which messages hold others.
struct StuckCalls {
  std::vector<const HoldingCall*> certain, telling, unreceived;
  std::size_t collectives = 0;

  explicit StuckCalls(const Evidence& know) {
    for (const HoldingCall* const call : know.ends.stuck) {
      const std::vector<const HoldingCall*> others = calls_that_await(know, *call);
      unreceived.insert(unreceived.end(), others.begin(), others.end());
      if (!others.empty() || !is_certain(know, *call)) continue;
      certain.push_back(call);
      if (is_of_several(*call)) ++collectives;
      if (!ranks_not_begun(know, *call).empty()) telling.push_back(call);
    }
  }
};

// ---- unlinked

void add_idle_beside(const Evidence& know, Explanation& found) {
  std::vector<int> idle;
  for (const Recording& one : know.job.recordings)
    if (know.is_idle(one.rank)) idle.push_back(one.rank);
  std::set<std::size_t> held;
  for (const JobCall& call : know.progresses.pending())
    if (call.group().may_lack_members) held.insert(call.dump);
  if (idle.size() >= held.size()) return;
  for (const int rank : idle) found.add(rank, SuspectKind::host, {.sentence = "why_idle_beside"});
}

void add_gone_pending(const Evidence& know, Explanation& found) {
  for (const JobCall& call : know.progresses.pending()) {
    if (!call.is_collective()) continue;
    for (const int rank : know.job.ranks_without_dump())
      if (call.group().may_lack_members || call.group().has_member(rank))
        found.add(rank, SuspectKind::absent, {.sentence = "why_gone_pending"});
  }
}

void add_lone_sends(const Evidence& know, Explanation& found) {
  for (const JobCall& call : know.progresses.pending()) {
    const PendingCalls& pending = know.progresses.of(call.dump);
    if (!pending.front.empty() || !pending.lost.empty()) continue;
    const int peer = call.group().rank_at(call.operation().to);
    if (peer >= 0 && know.is_idle(peer))
      found.add(peer, SuspectKind::host,
                {.sentence = "why_lone_send", .ranks = {call.rank()}, .group = call.group_id()});
  }
}

/// Returns how many ranks wait, and not for one that stands still, if no message is recorded.
std::int64_t ranks_elsewhere(const Evidence& know) {
  if (know.ends.stopped.empty() || !know.ends.gone.empty() || !know.job.has_no_messages()) return 0;
  std::vector<int> idle;
  for (const Recording& own : know.job.recordings)
    if (know.is_idle(own.rank)) idle.push_back(own.rank);
  const std::vector<bool> waits = know.graph.waiting_for(idle);
  return std::ranges::count_if(know.job.recordings, [&](const Recording& own) {
    return !know.front_of(own.rank).empty() && !waits[static_cast<std::size_t>(own.rank)];
  });
}

}  // namespace

void find_altered(const Evidence& know, Explanation& found) {
  for (std::size_t i = 0; i < know.disagreements.size(); ++i) {
    const Disagreement& one = know.disagreements[i];
    if (!one.holds_ranks) continue;
    const bool is_first = !found.altered;
    if (!is_first && !are_sisters(know.job, one, *found.altered)) continue;
    if (is_first) found.altered = one;
    found.sisters += is_first ? 0 : 1;
    for (const int rank : one.odd_ranks())
      found.add(rank, SuspectKind::order, {.sentence = "why_altered", .n = static_cast<std::int64_t>(i)});
  }
  if (found.altered && !found.altered->has_majority()) tell_parties_apart(know, found);
}

bool can_end(const Evidence& know, const HoldingCall& call) {
  const auto is_unknown = [&](int member) { return !know.job.dump_of(member) || know.is_cut(member); };
  return is_of_several(call) && std::ranges::none_of(know.job.groups[call.group].members, is_unknown) &&
         is_certain(know, call) && calls_that_await(know, call).empty();
}

void find_older(const Evidence& know, Explanation& found) {
  const std::vector<int> lagging = know.snapshots.ranks_of(know.job, know.snapshots.lags);
  const bool is_older = know.snapshots.are_older() || !are_of_devices(know, lagging);
  std::vector<int> roots = know.ends.stopped;
  roots.insert(roots.end(), know.ends.gone.begin(), know.ends.gone.end());
  found.elsewhere = ranks_elsewhere(know);
  if (lagging.empty() && !roots.empty()) {
    const std::vector<bool> waits = know.graph.waiting_for(roots);
    const auto waits_for_root = [&](int rank) { return waits[static_cast<std::size_t>(rank)]; };
    found.running = static_cast<std::size_t>(std::ranges::count_if(know.ends.stuck, [&](const auto* call) {
      return can_end(know, *call) && std::ranges::none_of(call->waiting, waits_for_root);
    }));
  } else if (roots.empty() && know.ends.circles.empty() && lagging.empty()) {
    const StuckCalls stuck(know);
    Explanation unmet;
    find_unmet(know, unmet);
    if (unmet.ranks.empty() && stuck.telling.empty() && stuck.unreceived.empty() && stuck.collectives > 1)
      found.running = stuck.collectives;
  }
  if (!is_older && static_cast<std::int64_t>(found.running) + found.elsewhere == 0) return;
  found.kind = EditKind::older;
  found.behind = std::move(roots);
  std::ranges::sort(found.behind);
  found.slowest = slowest_of(know.job, know.progresses);
  if (!found.slowest.is_late) return;
  found.kind = EditKind::late;
  found.add(found.slowest.rank, SuspectKind::host,
            {.sentence = "why_late",
             .ranks = found.slowest.call.waiting,
             .call = found.slowest.call,
             .n = found.slowest.ns / kSecond});
}

void find_extra(const Evidence& know, Explanation& found) { ExtraFinder(know, found).find(); }

void find_unmet(const Evidence& know, Explanation& found) {
  FirstMessages first = first_messages(know);
  const auto is_unmatched = [&](const auto& one) {
    return !std::ranges::all_of(one.second,
                                [&](const JobCall& call) { return has_other_half(know, first, call); });
  };
  while (std::erase_if(first, is_unmatched) > 0) {
  }
  for (const auto& [dump, calls] : first)
    found.add(calls.front().rank(), SuspectKind::device,
              {.sentence = "why_both_halves", .call = holding_call_of(calls.front())});
}

void find_unended(const Evidence& know, Explanation& found) {
  const StuckCalls stuck(know);
  for (const HoldingCall* const call : stuck.telling.empty() ? stuck.certain : stuck.telling)
    add_unended(know, *call, found);
  if (!found.ranks.empty()) return;
  for (const HoldingCall* const call : stuck.unreceived) add_unreceived(know, *call, found);
}

void find_unlinked(const Evidence& know, Explanation& found) {
  for (const auto add : {add_idle_beside, add_gone_pending, add_lone_sends})
    if (found.ranks.empty()) add(know, found);
}

}  // namespace verify
