#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "verify/inspect/sentences.h"
#include "verify/inspect/suspect_rules.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class AheadFinder {
 public:
  explicit AheadFinder(const Evidence& know) : know_(know) {}

  Suspects find() {
    if (!knows_all()) return {};
    if (!add_of_groups()) {
      found_.ranks.clear();
      if (!add_of_the_job()) return {};
    }
    found_.seen = Seen::ahead;
    return std::move(found_);
  }

 private:
  bool has_no_pending(int rank) const { return know_.progresses.of(*know_.job.dump_of(rank)).calls.empty(); }

  /// Adds the ranks that wait in calls whose other ranks have no pending call, or wait for those that wait in
  /// the call. Returns whether these are all that are ahead.
  bool add_of_groups() {
    std::vector<const HoldingCall*> calls;
    std::set<int> ranks;
    for (const HoldingCall& call : know_.graph.calls) {
      const auto is_behind = [&](int rank) { return has_no_pending(rank) || waits_for_those_in(call, rank); };
      if (idle_of(call).empty() || !std::ranges::all_of(call.awaited, is_behind)) continue;
      calls.push_back(&call);
      ranks.insert(call.waiting.begin(), call.waiting.end());
    }
    if (calls.empty() || 2 * ranks.size() >= know_.job.recordings.size()) return false;
    for (const HoldingCall* const call : calls) {
      if (call->is_message) continue;                                  // another call tells of its rank
      if (call->waiting.size() > idle_of(*call).size()) return false;  // the others of this group are fewer
      if (!others_are_one_behind(*call, ranks.size())) return false;
      for (const int rank : call->waiting) {
        const std::int64_t issued = std::max(know_.last_issued(rank, call->group), call->sequence);
        const std::int64_t ahead = issued - call->sequence + 1;
        found_.add(rank, SuspectKind::order,
                   sentence("why_ahead", {{"issued", issued},
                                          {"group", group_words(know_.job.groups[call->group])},
                                          {"ranks", idle_of(*call)},
                                          {"before", call->sequence - 1},
                                          {"ahead", ahead == 1 ? "one call" : counted(ahead, "call")}}));
      }
    }
    return found_.ranks.size() >= ranks.size();
  }

  /// Adds the ranks that wait for some of those without a pending call, where these are more than two thirds
  /// of all ranks: hosts of most ranks do not stop at once. They wait in what is not recorded, or have ended.
  bool add_of_the_job() {
    std::int64_t idle = 0, held = 0;
    for (const Recording& one : know_.job.recordings) ++(has_no_pending(one.rank) ? idle : held);
    if (idle <= 2 * held) return false;
    Compared compared;
    for (const HoldingCall& call : know_.graph.calls) {
      const std::size_t missing = idle_of(call).size();
      if (missing == 0) continue;
      if (call.waiting.size() > missing) return false;  // the others of this group are fewer
      if (!call.completed.empty()) return false;  // they have made the call, which may have failed there
      for (const int rank : call.waiting) {
        found_.add(rank, SuspectKind::order,
                   sentence("why_ahead_of_job", {{"call", know_.words_of(call)},
                                                 {"idle", idle},
                                                 {"ranks", std::ssize(know_.job.recordings)}}));
        compare_idle(rank, call, compared);
      }
    }
    std::int64_t balance = 0;
    for (const auto& [rank, is_behind] : compared.are_one_behind) balance += is_behind ? 1 : -1;
    if (balance == 1) add_awaited();
    return balance >= 1;
  }

  /// Where one rank alone could be compared, those that are awaited may have left out the call.
  void add_awaited() {
    for (const HoldingCall& call : know_.graph.calls)
      for (const int rank : idle_of(call))
        found_.add(rank, SuspectKind::host, sentence("why_not_come", {{"call", know_.words_of(call)}}));
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
      const std::int64_t last =
          know_.progresses.last_number(*know_.job.dump_of(other), theirs, call.is_message);
      if (last >= 0) compared.are_one_behind.try_emplace(other, last + 1 == call.sequence);
    };
    for (const auto& [there, group] : know_.job.counterparts(rank, call.group))
      if (has_no_pending(there) && know_.stage_of(there) == know_.stage_of(rank)) compare(there, group);
    if (call.is_message) return;
    for (const int other : idle_of(call)) compare(other, call.group);
  }

  /// Whether every rank has a whole dump that has all its pending calls.
  bool knows_all() const {
    return std::ranges::none_of(know_.graph.is_unknown, std::identity()) &&
           std::ranges::none_of(know_.job.dumps(),
                                [&](std::size_t dump) {
                                  return know_.job.recordings[dump].is_truncated ||
                                         !know_.progresses.of(dump).lost.empty();
                                }) &&
           std::ranges::all_of(know_.graph.calls,
                               [](const HoldingCall& call) { return call.absent.empty(); });
  }

  std::vector<int> idle_of(const HoldingCall& call) const {
    std::vector<int> idle = call.awaited;
    std::erase_if(idle, [&](int rank) { return !has_no_pending(rank); });
    return idle;
  }

  /// Whether a rank waits only for ranks that wait in a call.
  bool waits_for_those_in(const HoldingCall& call, int rank) const {
    const std::vector<std::size_t>& front = know_.front_of(rank);
    return !front.empty() && std::ranges::all_of(front, [&](std::size_t held_by) {
      const std::vector<int>& awaited = know_.graph.calls[held_by].awaited;
      return !awaited.empty() && std::ranges::includes(call.waiting, awaited);
    });
  }

  /// Whether the groups are of one kind and of one stage, so that their members make the same calls. Only
  /// Megatron's groups have others of their kind.
  bool are_alike(const JobGroup& a, const JobGroup& b) const {
    return !a.kind.empty() && a.kind == b.kind && a.description == b.description && !a.members.empty() &&
           !b.members.empty() && know_.stage_of(a.members.front()) == know_.stage_of(b.members.front());
  }

  /// Whether every rank without a pending call that is in the group of a call, or in one like it, has made
  /// exactly the calls before it, and there are more such ranks than `ahead`, and at least two.
  bool others_are_one_behind(const HoldingCall& call, std::size_t ahead) const {
    const std::vector<JobGroup>& groups = know_.job.groups;
    std::size_t behind = 0;
    for (const Recording& one : know_.job.recordings) {
      if (!has_no_pending(one.rank)) continue;
      for (const GroupOfRank& own : know_.job.groups_of[*know_.job.dump_of(one.rank)]) {
        if (own.group != call.group && !are_alike(groups[own.group], groups[call.group])) continue;
        if (know_.last_issued(one.rank, own.group) + 1 != call.sequence) return false;
        ++behind;
      }
    }
    return behind > std::max<std::size_t>(ahead, 1);
  }

  const Evidence& know_;
  Suspects found_;
};

}  // namespace

void prefer_ranks_ahead(const Evidence& know, Suspects& suspects) {
  Suspects ahead = AheadFinder(know).find();
  if (ahead.ranks.empty()) return;
  suspects.ranks = std::move(ahead.ranks);
  suspects.seen = Seen::ahead;
}

}  // namespace verify
