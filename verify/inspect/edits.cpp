#include "verify/inspect/edits.h"

#include <algorithm>
#include <array>

namespace verify {

namespace {

// ---- the ends of the graph

class EndFinder {
 public:
  explicit EndFinder(Evidence& know) : know_(know), ends_(know.ends) {}

  void find() {
    for (std::vector<std::size_t>& component : final_components(know_.graph.edges)) {
      if (component.size() > 1) {
        ends_.circles.push_back(std::move(component));
      } else if (component.front() >= know_.graph.world) {
        ends_.stuck.push_back(&know_.graph.calls[component.front() - know_.graph.world]);
      } else {
        add_root(static_cast<int>(component.front()));
      }
    }
    add_idle_behind();
    std::ranges::sort(ends_.stopped);
    const auto again = std::ranges::unique(ends_.stopped);
    ends_.stopped.erase(again.begin(), again.end());
    leave_out_explained();
    // A rank that is gone keeps others waiting, but not in a circle.
    if (!ends_.gone.empty()) ends_.circles = final_components(know_.graph.edges, true);
  }

 private:
  void add_root(int rank) {
    const bool is_awaited = know_.graph.is_awaited[static_cast<std::size_t>(rank)];
    if (know_.graph.is_unknown[static_cast<std::size_t>(rank)]) {
      if (is_awaited) ends_.gone.push_back(rank);
    } else if (know_.snapshots.lags[*know_.job.dump_of(rank)]) {
      ends_.silent.push_back(rank);
    } else if (is_awaited && !is_awaited_by_devices_alone(rank)) {
      ends_.stopped.push_back(rank);
    }
  }

  /// Whether nobody waits for a rank but in messages of ranks whose own devices have stopped: such a message
  /// is pending there, whatever the rank has done.
  bool is_awaited_by_devices_alone(int rank) const {
    const auto has_stopped = [&](int waiting) {
      const auto dump = know_.job.dump_of(waiting);
      return dump && know_.snapshots.lags[*dump];
    };
    return std::ranges::all_of(know_.graph.calls, [&](const HoldingCall& call) {
      const bool is_for_rank = std::ranges::binary_search(call.awaited, rank);
      return !is_for_rank || (call.is_message && std::ranges::all_of(call.waiting, has_stopped));
    });
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
      for (const int member : know_.job.groups[group].members)
        if (know_.is_idle(member) && know_.last_issued(member, group) < furthest[group])
          ends_.stopped.push_back(member);
    }
  }

  /// Ranks that stand still because of others. A rank whose calls have failed has lost its peer: it is gone.
  /// If the recorder has no messages, ranks of a group that all stand still at one place may wait in some,
  /// if another rank stands still, or is gone.
  void leave_out_explained() {
    const auto leave_out = [&](const auto& is_explained) {
      std::vector<int> others = ends_.stopped;
      std::erase_if(others, is_explained);
      if (!others.empty() || !ends_.gone.empty()) ends_.stopped = std::move(others);
    };
    leave_out([&](int rank) { return know_.job.has_failed_calls[*know_.job.dump_of(rank)]; });
    if (know_.job.has_no_messages()) leave_out([&](int rank) { return stands_together(rank); });
  }

  /// Whether all members of a group of a rank, but the default one, stand still after the same calls of it.
  bool stands_together(int rank) const {
    return std::ranges::any_of(know_.job.groups_of[*know_.job.dump_of(rank)], [&](const GroupOfRank& own) {
      const JobGroup& group = know_.job.groups[own.group];
      const std::int64_t issued = know_.last_issued(rank, own.group);
      return !group.is_default() && group.members.size() > 1 && issued > 0 &&
             std::ranges::all_of(group.members, [&](int member) {
               return know_.is_idle(member) && know_.last_issued(member, own.group) == issued;
             });
    });
  }

  Evidence& know_;
  Ends& ends_;
};

// ---- the rows that name ends

void find_regrouped(const Evidence& know, Explanation& found) {
  for (const int rank : know.order.ranks) found.add(rank, SuspectKind::order, {.sentence = "why_order"});
}

/// Returns the call that waits for a rank, a collective if there is one; null where none does.
const HoldingCall* call_that_awaits(const Evidence& know, int rank) {
  const HoldingCall* chosen = nullptr;
  for (const HoldingCall& call : know.graph.calls) {
    const bool is_for_rank = std::ranges::binary_search(call.awaited, rank);
    if (is_for_rank && (chosen == nullptr || (chosen->is_message && !call.is_message))) chosen = &call;
  }
  return chosen;
}

void find_stopped(const Evidence& know, Explanation& found) {
  for (const int rank : know.ends.stopped) {
    Facts facts{.sentence = "why_awaited"};
    if (const HoldingCall* const call = call_that_awaits(know, rank)) {
      facts.n = know.last_issued(rank, call->group);
      facts.sentence = call->is_message ? "why_awaited_message"
                       : facts.n == 0   ? "why_awaited_no_call"
                                        : "why_awaited_call";
      facts.ranks = call->waiting;
      facts.group = call->group;
      facts.m = call->sequence;
    }
    found.add(rank, SuspectKind::host, std::move(facts));
  }
}

void find_silent(const Evidence& know, Explanation& found) {
  for (const int rank : know.ends.silent) {
    const Lag& lag = *know.snapshots.lags[*know.job.dump_of(rank)];
    Facts facts{.sentence = "why_behind", .ranks = {lag.completed_by}, .group = lag.call.group};
    facts.n = lag.call.sequence;
    facts.m = lag.completed;
    if (lag.send) facts = {.sentence = "why_received", .ranks = {lag.completed_by}, .call = lag.send};
    found.add(rank, SuspectKind::device, std::move(facts));
  }
}

void find_gone(const Evidence& know, Explanation& found) {
  for (const int rank : know.ends.gone) {
    const bool has_part = know.job.find_blank(rank) != nullptr || know.job.dump_of(rank);
    found.add(rank, SuspectKind::absent, {.sentence = has_part ? "why_gone_cut" : "why_gone_awaited"});
  }
}

/// A kind of edit, with its cost.
struct EditRow {
  EditKind kind;
  int cost;
  void (*find)(const Evidence&, Explanation&);
};

constexpr std::array<EditRow, 11> kRows = {{{EditKind::altered, 1, find_altered},
                                            {EditKind::regrouped, 2, find_regrouped},
                                            {EditKind::older, 3, find_older},
                                            {EditKind::extra, 4, find_extra},
                                            {EditKind::stopped, 5, find_stopped},
                                            {EditKind::silent, 5, find_silent},
                                            {EditKind::unmet, 6, find_unmet},
                                            {EditKind::crossed, 7, find_circles},
                                            {EditKind::gone, 8, find_gone},
                                            {EditKind::unended, 9, find_unended},
                                            {EditKind::unlinked, 10, find_unlinked}}};

}  // namespace

const char* suspect_kind_name(SuspectKind kind) {
  constexpr const char* kNames[] = {"host", "device", "order", "absent"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool Evidence::waits_for(int rank, int other) const {
  return std::ranges::any_of(front_of(rank), [&](std::size_t call) {
    return std::ranges::binary_search(graph.calls[call].awaited, other);
  });
}

const HoldingCall* Evidence::message_that_awaits(int rank) const {
  const auto found = std::ranges::find_if(graph.calls, [&](const HoldingCall& call) {
    return call.is_message && std::ranges::find(call.awaited, rank) != call.awaited.end();
  });
  return found == graph.calls.end() ? nullptr : &*found;
}

Explanation explained(Evidence know) {
  EndFinder(know).find();
  Explanation found;
  int cost = 0;
  for (const EditRow& row : kRows) {
    if (found.kind != EditKind::none && row.cost > cost) break;
    const bool is_first = found.kind == EditKind::none;
    Explanation edits = is_first ? Explanation() : found;
    row.find(know, edits);
    if (edits.ranks.size() == found.ranks.size() && edits.kind == found.kind) continue;
    if (edits.kind == EditKind::none) edits.kind = row.kind;
    found = std::move(edits);
    cost = row.cost;
  }
  if (found.kind != EditKind::gone && !found.ranks.empty()) found.unknown = know.ends.gone;
  std::erase_if(found.unknown, [&](int rank) { return found.ranks.contains(rank); });
  return found;
}

}  // namespace verify
