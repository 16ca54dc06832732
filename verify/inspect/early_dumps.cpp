#include "verify/inspect/early_dumps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace verify {

namespace {

constexpr std::int64_t kNoTime = -1;
constexpr std::int64_t kLate = 60 * kSecond;  // no host is so late by chance

class Finder {
 public:
  Finder(const Job& job, const Progresses& progresses) : job_(job), progresses_(progresses) {}

  EarlyDumps find() {
    add_behind_completed();
    add_behind_counted();
    if (progresses_.has_completed_calls())
      add_most_of_a_call();  // else the others may have made another call
    for (const int rank : progresses_.messages().senders_behind()) ranks_.insert(rank);
    early_.ranks.assign(ranks_.begin(), ranks_.end());
    return early_;
  }

 private:
  void add(std::size_t dump, std::uint32_t group, const Furthest::Completed& completed) {
    ranks_.insert(job_.rank_of(dump));
    if (early_.completed_by >= 0) return;
    early_.group = group;
    early_.sequence = completed.sequence;
    early_.completed_by = completed.rank;
  }

  /// Dumps that end before a call that needs all members and is in another dump as completed.
  void add_behind_completed() {
    Furthest last(job_);
    last.take_calls([](const JobCall& call) { return call.needs_all(); });
    for (const std::size_t dump : job_.dumps()) {
      for (const GroupOfRank& own : job_.groups_of[dump]) {
        const std::int64_t issued = progresses_.last_issued(dump, own.group);
        const bool is_known = issued > 0 || job_.recordings[dump].is_whole();
        if (!is_known || issued >= last.of(own.group).sequence) continue;
        add(dump, own.group, last.of(own.group));
        break;
      }
    }
  }

  /// Dumps in which a call is pending that another rank counts as completed, with calls after it that the
  /// dump does not have. Those may be broadcasts, which end on their root before others have come, but the
  /// one that is pending needs all.
  void add_behind_counted() {
    Furthest last(job_);
    last.take_counts();
    for (const JobCall& call : progresses_.pending()) {
      const std::uint32_t group = call.group_id();
      if (!call.needs_all() || call->sequence > last.of(group).sequence) continue;
      if (progresses_.last_issued(call.dump, group) < last.of(group).sequence)
        add(call.dump, group, last.of(group));
    }
  }

  /// A call that is pending on some members and has completed on another one.
  struct Half {
    std::vector<std::size_t> pending;    // dumps
    std::vector<std::size_t> completed;  // dumps
    std::int64_t first = 0;              // index of the call in the first of the pending dumps
    std::int64_t late_ns = 0;            // how long after the pending dumps the completed ones issued it
  };

  /// When dumps issued calls, in ns; by the call and the dump.
  using Times = std::map<CollectiveId, std::map<std::size_t, std::int64_t>>;

  /// Dumps in which a call is pending that has completed on another member, where it is pending on most of
  /// those whose dumps are not early: it ended when theirs had been written, as the devices of most members
  /// do not stop in a call that ends on others. Where most dumps are early, so are all in such a call.
  void add_most_of_a_call() {
    const std::map<CollectiveId, Half> calls = half_completed_calls();
    for (std::size_t before = job_.recordings.size() + 1; before != ranks_.size();) {
      before = ranks_.size();
      for (const auto& [id, one] : calls) {
        const bool is_most = is_of_most(id.group, one.pending);
        if (is_most) late_.insert(one.completed.begin(), one.completed.end());
        const bool is_early = is_most || is_of_half_beside_late(one) || one.late_ns >= kLate;
        if (!is_early && 2 * ranks_.size() <= job_.recordings.size()) continue;
        for (const std::size_t dump : one.pending)
          add(dump, id.group, {id.sequence, job_.rank_of(one.completed.back())});
      }
    }
    find_last(calls);
  }

  /// Whether a call is pending on as many members as have completed it, and the dumps of these came later: so
  /// another call tells, which is pending on most of its members, and they have no pending call.
  bool is_of_half_beside_late(const Half& one) const {
    return one.pending.size() == one.completed.size() &&
           std::ranges::all_of(one.completed, [&](std::size_t dump) {
             return late_.contains(dump) && !progresses_.of(dump).any();
           });
  }

  /// Finds the rank that alone has completed all of the calls that are pending in early dumps.
  void find_last(const std::map<CollectiveId, Half>& calls) {
    std::set<int> last;
    for (const auto& [id, one] : calls)
      for (const std::size_t dump : one.completed) last.insert(job_.rank_of(dump));
    if (last.size() != 1 || ranks_.contains(*last.begin())) return;
    // The call that is pending in most dumps.
    const auto& [id, most] =
        *std::ranges::max_element(calls, {}, [](const auto& one) { return one.second.pending.size(); });
    if (most.pending.size() < 2 && most.late_ns < kLate) return;
    early_.last = *last.begin();
    early_.late_ns = most.late_ns < kLate ? 0 : most.late_ns;
    early_.last_call = {
        .group = id.group, .sequence = id.sequence, .dump = most.pending.front(), .call = most.first};
    for (const std::size_t dump : most.pending) early_.last_call.waiting.push_back(job_.rank_of(dump));
  }

  /// How long after the members in whose dumps a call is pending those issued it that have completed it,
  /// where the clocks of their hosts agree: all of them issued the call before it at nearly one time.
  /// Otherwise 0.
  static std::int64_t lateness_of(const CollectiveId& id, const Half& one, const Times& times) {
    const std::int64_t last_pending = times_of(id, one.pending, times).second;
    const std::int64_t first_completed = times_of(id, one.completed, times).first;
    if (last_pending == kNoTime || first_completed == kNoTime) return 0;
    std::vector<std::size_t> all = one.pending;
    all.insert(all.end(), one.completed.begin(), one.completed.end());
    const auto [first, last] = times_of({id.group, id.sequence - 1}, all, times);
    const bool do_agree = first != kNoTime && last - first <= kLate / 10;
    return do_agree ? std::max<std::int64_t>(0, first_completed - last_pending) : 0;
  }

  /// Returns when the first and the last of these dumps issued a call; kNoTime where one does not tell.
  static std::pair<std::int64_t, std::int64_t> times_of(const CollectiveId& id,
                                                        const std::vector<std::size_t>& dumps,
                                                        const Times& times) {
    std::vector<std::int64_t> found;
    for (const std::size_t dump : dumps) {
      const auto own = times.at(id).find(dump);
      if (own == times.at(id).end() || own->second <= 0) return {kNoTime, kNoTime};
      found.push_back(own->second);
    }
    const auto [first, last] = std::ranges::minmax(found);
    return {first, last};
  }

  std::map<CollectiveId, Half> half_completed_calls() const {
    std::map<CollectiveId, Half> calls;
    for (const JobCall& call : progresses_.pending()) {
      if (!call.needs_all()) continue;
      Half& half = calls[call.id()];
      if (half.pending.empty()) half.first = static_cast<std::int64_t>(call.index());
      if (half.pending.empty() || half.pending.back() != call.dump) half.pending.push_back(call.dump);
    }
    if (calls.empty()) return calls;
    Times times;  // of these calls and of those before them
    for (const auto& [id, one] : calls) {
      times[id];
      times[{id.group, id.sequence - 1}];
    }
    for (const JobCall call : job_.calls()) {
      const auto time = call.is_collective() ? times.find(call.id()) : times.end();
      if (time != times.end()) time->second.try_emplace(call.dump, call->created_ns);
      const auto half = call.is_completed() && call.needs_all() ? calls.find(call.id()) : calls.end();
      if (half != calls.end()) half->second.completed.push_back(call.dump);
    }
    std::erase_if(calls, [](const auto& one) { return one.second.completed.empty(); });
    for (auto& [id, one] : calls) one.late_ns = lateness_of(id, one, times);
    return calls;
  }

  /// Whether these dumps are most of those of a group that are not early.
  bool is_of_most(std::uint32_t group, const std::vector<std::size_t>& pending) const {
    const auto counts = [&](int rank) { return job_.dump_of(rank) && !ranks_.contains(rank); };
    const auto rank_of = [&](std::size_t dump) { return job_.rank_of(dump); };
    return 2 * std::ranges::count_if(pending, counts, rank_of) >
           std::ranges::count_if(job_.groups[group].members, counts);
  }

  const Job& job_;
  const Progresses& progresses_;
  EarlyDumps early_;
  std::set<int> ranks_;
  std::set<std::size_t> late_;  // dumps: their ranks have completed a call that is pending on most members
};

}  // namespace

EarlyDumps early_dumps_of(const Job& job, const Progresses& progresses) {
  return Finder(job, progresses).find();
}

void mark_early_dumps(const EarlyDumps& early, Job& job) {
  if (early.ranks.size() >= job.recordings.size()) return;
  for (const int rank : early.ranks) job.is_early[*job.dump_of(rank)] = true;
}

}  // namespace verify
