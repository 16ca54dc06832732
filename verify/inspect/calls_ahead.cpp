#include "verify/inspect/calls_ahead.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The calls that wait for ranks without a pending call, and the ranks that wait in them.
struct WaitingForIdle {
  std::vector<const HoldingCall*> calls;
  std::set<int> ranks;
};

class AheadFinder {
 public:
  AheadFinder(const Job& job, const Progresses& progresses, const WaitGraph& graph)
      : job_(job), progresses_(progresses), graph_(graph) {}

  std::vector<RankAhead> find() const {
    if (!knows_all()) return {};
    std::vector<RankAhead> found = of_groups();
    return found.empty() ? of_the_job() : found;
  }

 private:
  std::vector<RankAhead> of_groups() const {
    const WaitingForIdle waiting = waiting_for_idle_ranks();
    if (waiting.calls.empty() || 2 * waiting.ranks.size() >= job_.recordings.size()) return {};
    std::map<int, RankAhead> ahead;
    for (const HoldingCall* call : waiting.calls) {
      if (call->is_message) continue;                               // another call tells of its rank
      if (call->waiting.size() > idle_of(*call).size()) return {};  // the others of this group are fewer
      if (!others_are_one_behind(*call, waiting.ranks.size())) return {};
      for (const int rank : call->waiting) ahead.try_emplace(rank, RankAhead{rank, reason_of(rank, *call)});
    }
    if (ahead.size() < waiting.ranks.size()) return {};
    std::vector<RankAhead> found;
    for (auto& [rank, one] : ahead) found.push_back(std::move(one));
    return found;
  }

  /// Ranks that wait for some of those without a pending call, where these are more than two thirds of all
  /// ranks: most hosts do not stop at once. They wait in something that is not recorded, or have ended.
  std::vector<RankAhead> of_the_job() const {
    std::int64_t idle = 0, held = 0;
    for (const Recording& one : job_.recordings) ++(is_idle(one.rank) ? idle : held);
    if (idle <= 2 * held) return {};
    std::map<int, RankAhead> ahead;
    Compared compared;
    for (const HoldingCall& call : graph_.calls) {
      const std::size_t missing = idle_of(call).size();
      if (missing == 0) continue;
      if (call.waiting.size() > missing) return {};  // the others of this group are fewer
      if (!call.completed.empty()) return {};        // they have made the call, which may have failed there
      for (const int rank : call.waiting) {
        ahead.try_emplace(rank, RankAhead{rank, reason_of_going_on(call, idle)});
        compare_idle(rank, call, compared);
      }
    }
    std::int64_t balance = 0;
    for (const auto& [rank, is_behind] : compared.are_one_behind) balance += is_behind ? 1 : -1;
    if (balance < 1) return {};
    if (balance == 1) add_awaited(ahead);
    std::vector<RankAhead> found;
    for (auto& [rank, one] : ahead) found.push_back(std::move(one));
    return found;
  }

  /// Where one rank alone could be compared, those that are awaited may have left out the call.
  void add_awaited(std::map<int, RankAhead>& ahead) const {
    for (const HoldingCall& call : graph_.calls)
      for (const int rank : idle_of(call))
        ahead.try_emplace(rank,
                          RankAhead{.rank = rank,
                                    .reason = fmt::format("It has no pending call, and has not come to {}.",
                                                          call_words(job_, call)),
                                    .is_awaited = true});
  }

  /// The ranks without a pending call that were compared with one that waits, and in which call.
  struct Compared {
    std::map<int, bool> are_one_behind;
    std::set<std::tuple<int, std::uint32_t, bool, std::int64_t>> seen;
  };

  /// Finds which ranks without a pending call have made exactly the calls before this one, of those that the
  /// call waits for, and of those of its pipeline stage at its place in groups of the kind.
  void compare_idle(int rank, const HoldingCall& call, Compared& compared) const {
    const auto compare = [&](int other, std::uint32_t theirs) {
      if (!compared.seen.insert({other, theirs, call.is_message, call.sequence}).second) return;
      const std::int64_t last = progresses_.last_number(dump_of(other), theirs, call.is_message);
      if (last >= 0) compared.are_one_behind.try_emplace(other, last + 1 == call.sequence);
    };
    for (const auto& [there, group] : job_.counterparts(rank, call.group))
      if (is_idle(there) && stage_of(there) == stage_of(rank)) compare(there, group);
    if (call.is_message) return;
    for (const int other : idle_of(call)) compare(other, call.group);
  }

  std::ptrdiff_t stage_of(int rank) const { return job_.stage_of(dump_of(rank)); }

  std::string reason_of_going_on(const HoldingCall& call, std::int64_t idle) const {
    return fmt::format("It waits in {}, and {} of {} ranks have no pending call.", call_words(job_, call),
                       idle, std::ssize(job_.recordings));
  }

  std::size_t dump_of(int rank) const {
    return static_cast<std::size_t>(job_.dump_of_rank[static_cast<std::size_t>(rank)]);
  }
  bool is_idle(int rank) const { return progresses_.of(dump_of(rank)).calls.empty(); }

  /// Whether every rank has a whole dump that has all its pending calls.
  bool knows_all() const {
    if (std::ranges::find(graph_.is_unknown, true) != graph_.is_unknown.end()) return false;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      if (job_.recordings[dump].is_truncated || !progresses_.of(dump).lost.empty()) return false;
    }
    return std::ranges::all_of(graph_.calls, [](const HoldingCall& call) { return call.absent.empty(); });
  }

  std::vector<int> idle_of(const HoldingCall& call) const {
    std::vector<int> idle;
    std::ranges::copy_if(call.awaited, std::back_inserter(idle), [&](int rank) { return is_idle(rank); });
    return idle;
  }

  /// Whether a rank waits only for ranks that wait in a call.
  bool waits_for_those_in(const HoldingCall& call, int rank) const {
    const std::vector<std::size_t>& front = graph_.fronts[dump_of(rank)];
    return !front.empty() && std::ranges::all_of(front, [&](std::size_t held_by) {
      const std::vector<int>& awaited = graph_.calls[held_by].awaited;
      return !awaited.empty() && std::ranges::includes(call.waiting, awaited);
    });
  }

  /// Calls whose other ranks are idle, or wait for those that wait in the call.
  WaitingForIdle waiting_for_idle_ranks() const {
    WaitingForIdle waiting;
    for (const HoldingCall& call : graph_.calls) {
      const auto is_behind = [&](int rank) { return is_idle(rank) || waits_for_those_in(call, rank); };
      if (idle_of(call).empty() || !std::ranges::all_of(call.awaited, is_behind)) continue;
      waiting.calls.push_back(&call);
      waiting.ranks.insert(call.waiting.begin(), call.waiting.end());
    }
    return waiting;
  }

  /// Whether the groups are of one kind and of one stage, so that their members make the same calls. Only
  /// Megatron's groups have others of their kind.
  bool are_alike(const JobGroup& a, const JobGroup& b) const {
    return !a.kind.empty() && a.kind == b.kind && a.description == b.description && !a.members.empty() &&
           !b.members.empty() &&
           job_.stage_of(dump_of(a.members.front())) == job_.stage_of(dump_of(b.members.front()));
  }

  /// Whether every rank without a pending call that is in the group of a call, or in one like it, has made
  /// exactly the calls before it, and there are more such ranks than `ahead`, and at least two.
  bool others_are_one_behind(const HoldingCall& call, std::size_t ahead) const {
    std::size_t behind = 0;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      if (!progresses_.of(dump).calls.empty()) continue;
      for (const GroupOfRank& own : job_.groups_of[dump]) {
        if (own.group == kNoGroup) continue;
        if (own.group != call.group && !are_alike(job_.groups[own.group], job_.groups[call.group])) continue;
        if (progresses_.last_issued(dump, own.group) + 1 != call.sequence) return false;
        ++behind;
      }
    }
    return behind > std::max<std::size_t>(ahead, 1);
  }

  std::string reason_of(int rank, const HoldingCall& call) const {
    const std::vector<int> idle = idle_of(call);
    const bool is_one = idle.size() == 1;
    const std::int64_t issued = std::max(progresses_.last_issued(dump_of(rank), call.group), call.sequence);
    return fmt::format(
        "It has issued {} of {}, and {} {} issued {} and {} no pending call: it is {} ahead of {}.",
        counted(issued, "call"), group_words(job_.groups[call.group]), ranks_words(idle),
        is_one ? "has" : "have", call.sequence - 1, is_one ? "has" : "have",
        issued == call.sequence ? "one call" : counted(issued - call.sequence + 1, "call"),
        is_one ? "it" : "them");
  }

  const Job& job_;
  const Progresses& progresses_;
  const WaitGraph& graph_;
};

}  // namespace

std::vector<RankAhead> ranks_ahead(const Job& job, const Progresses& progresses, const WaitGraph& graph) {
  return AheadFinder(job, progresses, graph).find();
}

}  // namespace verify
