#include "verify/inspect/lags.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class LagFinder {
 public:
  LagFinder(const Job& job, const Progresses& progresses, AllToAlls all_to_alls)
      : job_(job),
        progresses_(progresses),
        takes_all_to_alls_(all_to_alls == AllToAlls::taken),
        lags_(job.recordings.size()) {}

  std::vector<Lag> find() {
    measure_groups();
    measure_active_calls();
    find_few();
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      find_lag_of_device(dump);
      if (!lags_[dump].is_device) find_received_send(dump);
    }
    return std::move(lags_);
  }

 private:
  /// How far the members of a group came that came furthest.
  struct Furthest {
    std::int64_t completed = 0;
    int completed_by = -1;    // a rank
    bool is_counted = false;  // the call itself is not known, only its number
  };
  const Recording& recording(std::size_t dump) const { return job_.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  /// Whether a completed call tells how far a member came in its group. So do rooted calls, which need not
  /// all members: those before it have ended there, too.
  bool tells_how_far(std::size_t dump, const RecordedCall& call) const {
    return job_.is_collective(dump, call) &&
           (takes_all_to_alls_ || job_.operation(dump, call).name != "all_to_all");
  }

  void measure_groups() {
    furthest_.resize(job_.groups.size());
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const RecordedCall& call : recording(dump).calls) {
        if (call.state == CallState::completed && tells_how_far(dump, call))
          take(job_.group_of(dump, call), dump, call.sequence, false);
      }
    }
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const GroupOfRank& own : job_.groups_of[dump]) {
        if (own.group != kNoGroup && own.status && job_.groups[own.group].has_status)
          take(own.group, dump, own.status->completed, true);
      }
    }
  }

  void take(std::uint32_t group, std::size_t dump, std::int64_t completed, bool is_counted) {
    Furthest& furthest = furthest_[group];
    if (completed > furthest.completed) furthest = {completed, rank_of(dump), is_counted};
  }

  /// Where dumps have active calls alone, a member has completed what comes before the first that it has,
  /// unless its ring may have overwritten it: a ring holds as many calls as the longest dump has.
  void measure_active_calls() {
    if (progresses_.has_completed_calls()) return;
    std::size_t longest = 0;
    for (const Recording& one : job_.recordings) longest = std::max(longest, one.calls.size());
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      if (recording(dump).calls.size() == longest) continue;
      std::set<std::uint32_t> seen;
      for (const RecordedCall& call : recording(dump).calls) {
        if (!job_.is_collective(dump, call) || !seen.insert(call.group).second) continue;
        const GroupOfRank& own = job_.groups_of[dump][call.group];
        if (own.status && job_.groups[own.group].has_status) continue;  // it counts what has completed
        take(own.group, dump, call.sequence - 1, true);
      }
    }
  }

  void add_if_behind(std::size_t dump, const CollectiveId& id) {
    const Furthest& furthest = furthest_[id.group];
    const bool by_another = furthest.completed_by >= 0 && furthest.completed_by != rank_of(dump);
    if (lags_[dump].is_device || !by_another || furthest.completed < id.sequence) return;
    if (few_.contains(furthest.completed_by) && is_completed_by_those_few(id)) return;
    lags_[dump] = {
        .is_device = true,
        .reason = fmt::format(
            "It has issued call {} of {} and not completed it, and rank {} has completed call {}.",
            id.sequence, group_words(job_.groups[id.group]), furthest.completed_by, furthest.completed)};
  }

  void find_lag_of_device(std::size_t dump) {
    for (const std::uint32_t index : progresses_.of(dump).calls) {
      const RecordedCall& call = recording(dump).calls[index];
      const Operation& operation = job_.operation(dump, call);
      // Gloo has no device: a call that has ended on a member only has ended there with an error.
      if (operation.kind != Operation::Kind::collective || operation.backend == "gloo") continue;
      const std::uint32_t group = job_.group_of(dump, call);
      const CollectiveId id{group, call.sequence};
      const bool is_all_to_all = operation.name == "all_to_all";
      if (furthest_[group].is_counted && !is_all_to_all && is_completed_by_few(id)) continue;
      if (tells_how_far(dump, call) || (!call.is_p2p && !furthest_[group].is_counted))
        add_if_behind(dump, id);
    }
    for (const CollectiveId& id : progresses_.of(dump).lost) add_if_behind(dump, id);
  }

  /// Finds the ranks that count a call as completed which is pending on more members, in dumps of active
  /// calls alone: they have made other calls, or their dumps were written later. Another call that they alone
  /// have completed says nothing of a device.
  void find_few() {
    if (progresses_.has_completed_calls()) return;
    std::set<CollectiveId> seen;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const std::uint32_t index : progresses_.of(dump).calls) {
        const RecordedCall& call = recording(dump).calls[index];
        const CollectiveId id{job_.group_of(dump, call), call.sequence};
        const Operation& operation = job_.operation(dump, call);
        const bool needs_members = operation.kind == Operation::Kind::collective && tells_how_far(dump, call);
        if (!needs_members || !seen.insert(id).second || !is_completed_by_few(id)) continue;
        for (const int member : job_.groups[id.group].members)
          if (has_completed(member, id)) few_.insert(member);
      }
    }
  }

  bool has_completed(int rank, const CollectiveId& id) const {
    const int dump = job_.dump_of_rank[static_cast<std::size_t>(rank)];
    return dump >= 0 && progresses_.has_completed(static_cast<std::size_t>(dump), id);
  }

  /// Whether nobody but those few has completed a call.
  bool is_completed_by_those_few(const CollectiveId& id) const {
    return std::ranges::none_of(job_.groups[id.group].members, [&](int member) {
      return !few_.contains(member) && has_completed(member, id);
    });
  }

  /// Whether dumps of active calls alone count a call as completed on fewer members than it is pending on.
  /// They do not tell which call it was: those few may have made another one, as a broadcast that ends early.
  bool is_completed_by_few(const CollectiveId& id) {
    const bool is_behind = furthest_[id.group].completed >= id.sequence;
    if (progresses_.has_completed_calls() || !job_.groups[id.group].has_status || !is_behind) return false;
    const auto [known, is_new] = are_completed_by_few_.try_emplace(id, false);
    if (!is_new) return known->second;
    std::int64_t balance = 0;
    for (const int member : job_.groups[id.group].members) {
      const int dump = job_.dump_of_rank[static_cast<std::size_t>(member)];
      if (dump < 0) continue;
      const auto there = static_cast<std::size_t>(dump);
      balance += (progresses_.is_pending(there, id) ? 1 : 0) - (progresses_.has_completed(there, id) ? 1 : 0);
    }
    return known->second = balance > 0;
  }

  /// A send that holds the rank and that its peer has received. Of a batch another message may be pending.
  void find_received_send(std::size_t dump) {
    const std::vector<std::uint32_t>& front = progresses_.of(dump).front;
    if (front.size() != 1) return;
    const RecordedCall& call = recording(dump).calls[front.front()];
    const Operation& operation = job_.operation(dump, call);
    if (operation.kind != Operation::Kind::send || operation.backend == "gloo" || call.is_part) return;
    const JobGroup& group = job_.groups[job_.group_of(dump, call)];
    const int peer = group.rank_at(operation.to);
    const int there = peer < 0 ? -1 : job_.dump_of_rank[static_cast<std::size_t>(peer)];
    if (there < 0) return;
    if (!progresses_.messages().has_completed_half(static_cast<std::size_t>(there), dump, front.front()))
      return;
    lags_[dump] = {.is_device = true,
                   .reason = fmt::format(
                       "It has issued {} of {} and not completed it, and rank {} has received it.",
                       sim::printable_text(recording(dump).operation(call)), group_words(group), peer)};
  }

  const Job& job_;
  const Progresses& progresses_;
  bool takes_all_to_alls_;
  std::vector<Furthest> furthest_;  // by group
  std::map<CollectiveId, bool> are_completed_by_few_;
  std::set<int> few_;      // ranks
  std::vector<Lag> lags_;  // by dump
};

}  // namespace

std::vector<Lag> lags_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls) {
  return LagFinder(job, progresses, all_to_alls).find();
}

}  // namespace verify
