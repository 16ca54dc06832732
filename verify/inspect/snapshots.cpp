#include "verify/inspect/snapshots.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace verify {

namespace {

class LagFinder {
 public:
  LagFinder(const Job& job, const Progresses& progresses, AllToAlls all_to_alls)
      : job_(job),
        progresses_(progresses),
        takes_all_to_alls_(all_to_alls == AllToAlls::taken),
        furthest_(job),
        needing_(job) {}

  Snapshots find() {
    found_.lags.resize(job_.recordings.size());
    found_.older.resize(job_.recordings.size());
    furthest_.take_calls([&](const JobCall& call) { return tells_how_far(call); });
    furthest_.take_counts();
    needing_.take_calls([](const JobCall& call) { return call.needs_all(); });
    if (!progresses_.has_completed_calls()) measure_active_calls();
    for (const std::size_t dump : job_.dumps()) {
      find_lag(dump);
      if (!job_.recordings[dump].is_truncated) find_older(dump);
      if (!found_.lags[dump]) find_received_send(dump);
    }
    for (const int rank : progresses_.messages().senders_behind())
      if (!job_.find_recording(rank)->is_truncated) found_.older[*job_.dump_of(rank)].emplace();
    return std::move(found_);
  }

 private:
  /// Whether a completed call tells how far a member came in its group. So do rooted calls, which need not
  /// all members: those before it have ended there, too.
  bool tells_how_far(const JobCall& call) const {
    return call.is_collective() && job_.proves(call) &&
           (takes_all_to_alls_ || call.operation().name != "all_to_all");
  }

  /// Where dumps have active calls alone, a member has completed what comes before the first that it has,
  /// unless its ring may have overwritten it: a ring holds as many calls as the longest dump has.
  void measure_active_calls() {
    std::size_t longest = 0;
    for (const Recording& one : job_.recordings) longest = std::max(longest, one.calls.size());
    std::set<std::pair<std::size_t, std::uint32_t>> seen;
    for (const JobCall call : job_.calls()) {
      if (call.recording().calls.size() == longest || !call.is_collective()) continue;
      if (!seen.insert({call.dump, call->group}).second) continue;
      // Where a dump counts what has ended, that is known already.
      if (job_.counts_of(&job_.groups_of[call.dump][call->group]) == nullptr)
        furthest_.take({call.group_id(), call->sequence - 1}, call.rank(), true);
    }
  }

  bool add(Lags& to, std::size_t dump, const CollectiveId& id, const Furthest::Completed& last) const {
    if (to[dump] || last.rank < 0 || last.rank == job_.rank_of(dump) || last.sequence < id.sequence)
      return false;
    to[dump] = Lag{.call = id, .completed = last.sequence, .completed_by = last.rank, .send = {}};
    return true;
  }

  void find_lag(std::size_t dump) {
    for (const JobCall& call : progresses_.of(dump).calls) {
      if (call.operation().kind != Operation::Kind::collective) continue;
      const Furthest::Completed& last = furthest_.of(call.group_id());
      if (!tells_how_far(call) && (call->is_p2p || last.is_counted || !job_.proves(call))) continue;
      // Gloo has no device that could be behind.
      add(call.operation().backend == "gloo" ? found_.older : found_.lags, dump, call.id(), last);
    }
    for (const CollectiveId& id : progresses_.of(dump).lost)
      add(found_.lags, dump, id, furthest_.of(id.group));
  }

  /// A dump that ends before a call that needs all members and is in another dump as completed.
  void find_older(std::size_t dump) {
    for (const GroupOfRank& own : job_.groups_of[dump]) {
      const std::int64_t issued = progresses_.last_issued(dump, own.group);
      const bool is_known = issued > 0 || job_.recordings[dump].is_whole();
      if (is_known && add(found_.older, dump, {own.group, issued + 1}, needing_.of(own.group))) return;
    }
    // A pending call that others count as completed, with calls after it that the dump does not have.
    for (const JobCall& call : progresses_.of(dump).calls) {
      const std::int64_t last = furthest_.of(call.group_id()).sequence;
      if (call.needs_all() && call->sequence <= last &&
          progresses_.last_issued(dump, call.group_id()) < last &&
          add(found_.older, dump, call.id(), furthest_.of(call.group_id())))
        return;
    }
  }

  /// A send that holds the rank and that its peer has received. Of a batch another message may be pending.
  void find_received_send(std::size_t dump) {
    const std::vector<JobCall>& front = progresses_.of(dump).front;
    if (front.size() != 1) return;
    const JobCall& call = front.front();
    const Operation& operation = call.operation();
    if (operation.kind != Operation::Kind::send || operation.backend == "gloo" || call->is_part) return;
    const int peer = call.peer();
    const auto there = peer < 0 ? std::nullopt : job_.dump_of(peer);
    if (!there || !progresses_.messages().has_completed_half(*there, call)) return;
    found_.lags[dump] = Lag{
        .call = {call.group_id(), 0}, .completed = 0, .completed_by = peer, .send = holding_call_of(call)};
  }

  const Job& job_;
  const Progresses& progresses_;
  bool takes_all_to_alls_;
  Furthest furthest_, needing_;
  Snapshots found_;
};

/// When the members of groups issued the last call that all of them have, and the one before it.
class SlowestFinder {
 public:
  SlowestFinder(const Job& job, const Progresses& progresses) : job_(job), progresses_(progresses) {}

  Slowest find() {
    std::map<std::uint32_t, std::int64_t> last;  // by group
    for (std::uint32_t group = 0; group < job_.groups.size(); ++group) {
      const std::int64_t sequence = last_of_all(group);
      if (sequence > 0) last[group] = sequence;
    }
    for (const JobCall call : job_.calls()) {
      if (!call.is_collective() || call->created_ns <= 0) continue;
      const auto found = last.find(call.group_id());
      if (found == last.end()) continue;
      if (call->sequence == found->second) calls_[found->first].emplace(call->created_ns, call);
      if (call->sequence + 1 == found->second) before_[found->first].insert(call->created_ns);
    }
    for (const auto& [group, calls] : calls_) judge(group, calls);
    return std::move(slowest_);
  }

 private:
  using Calls = std::multimap<std::int64_t, JobCall>;

  /// Returns the last collective of a group that all members have issued; 0 where one of them is not known.
  std::int64_t last_of_all(std::uint32_t group) const {
    const std::vector<int>& members = job_.groups[group].members;
    std::int64_t last = INT64_MAX;
    for (const int member : members)
      last = std::min(last, job_.dump_of(member) ? progresses_.last_issued(*job_.dump_of(member), group) : 0);
    return members.size() > 1 ? last : 0;
  }

  /// Takes the slowest rank of a group, if it is larger than those before, or came later.
  void judge(std::uint32_t group, const Calls& calls) {
    if (calls.size() != job_.groups[group].members.size()) return;
    const auto last = std::prev(calls.end());
    const std::int64_t ns = last->first - std::prev(last)->first;
    if (ns <= 0 || std::pair(calls.size(), ns) <= std::pair(members_, slowest_.ns)) return;
    members_ = calls.size();
    slowest_ = {.rank = last->second.rank(), .call = holding_call_of(last->second), .ns = ns};
    slowest_.call.waiting.clear();
    bool do_wait = true;
    for (auto call = calls.begin(); call != last; ++call) {
      slowest_.call.waiting.push_back(call->second.rank());
      do_wait = do_wait && progresses_.is_pending(call->second.dump, call->second.id());
    }
    std::ranges::sort(slowest_.call.waiting);
    const std::set<std::int64_t>& before = before_[group];
    slowest_.is_late =
        do_wait && ns >= kLate && !before.empty() && *before.rbegin() - *before.begin() <= kLate / 10;
  }

  const Job& job_;
  const Progresses& progresses_;
  std::map<std::uint32_t, Calls> calls_;                    // by group
  std::map<std::uint32_t, std::set<std::int64_t>> before_;  // times of the calls before these
  std::size_t members_ = 0;
  Slowest slowest_;
};

}  // namespace

bool Snapshots::are_older() const {
  return std::ranges::any_of(older, [](const auto& one) { return one.has_value(); });
}

std::vector<int> Snapshots::ranks_of(const Job& job, const Lags& of) const {
  std::vector<int> ranks;
  for (const std::size_t dump : job.dumps())
    if (of[dump]) ranks.push_back(job.rank_of(dump));
  std::ranges::sort(ranks);
  return ranks;
}

Snapshots snapshots_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls) {
  return LagFinder(job, progresses, all_to_alls).find();
}

Slowest slowest_of(const Job& job, const Progresses& progresses) {
  return SlowestFinder(job, progresses).find();
}

}  // namespace verify
