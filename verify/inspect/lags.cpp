#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

namespace {

class LagFinder {
 public:
  LagFinder(const Job& job, const Progresses& progresses, AllToAlls all_to_alls)
      : job_(job),
        progresses_(progresses),
        takes_all_to_alls_(all_to_alls == AllToAlls::taken),
        furthest_(job),
        lags_(job.recordings.size()) {}

  Lags find() {
    furthest_.take_calls([&](const JobCall& call) { return tells_how_far(call); });
    furthest_.take_counts();
    if (!progresses_.has_completed_calls()) {
      measure_active_calls();
      find_few();
    }
    for (const std::size_t dump : job_.dumps()) {
      find_lag_of_device(dump);
      if (lags_[dump].empty()) find_received_send(dump);
    }
    return std::move(lags_);
  }

 private:
  /// Whether a completed call tells how far a member came in its group. So do rooted calls, which need not
  /// all members: those before it have ended there, too.
  bool tells_how_far(const JobCall& call) const {
    return call.is_collective() && (takes_all_to_alls_ || call.operation().name != "all_to_all");
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

  void add_if_behind(std::size_t dump, const CollectiveId& id) {
    const Furthest::Completed& last = furthest_.of(id.group);
    const bool by_another = last.rank >= 0 && last.rank != job_.rank_of(dump);
    if (!lags_[dump].empty() || !by_another || last.sequence < id.sequence) return;
    if (few_.contains(last.rank) && is_completed_by_those_few(id)) return;
    lags_[dump] = sentence("why_behind", {{"sequence", id.sequence},
                                          {"group", group_words(job_.groups[id.group])},
                                          {"rank", last.rank},
                                          {"completed", last.sequence}});
  }

  void find_lag_of_device(std::size_t dump) {
    for (const JobCall& call : progresses_.of(dump).calls) {
      const Operation& operation = call.operation();
      // Gloo has no device: a call that has ended on a member only has ended there with an error.
      if (operation.kind != Operation::Kind::collective || operation.backend == "gloo") continue;
      const bool is_counted = furthest_.of(call.group_id()).is_counted;
      if (is_counted && operation.name != "all_to_all" && is_completed_by_few(call.id())) continue;
      if (tells_how_far(call) || (!call->is_p2p && !is_counted)) add_if_behind(dump, call.id());
    }
    for (const CollectiveId& id : progresses_.of(dump).lost) add_if_behind(dump, id);
  }

  /// Finds the ranks that count a call as completed which is pending on more members, in dumps of active
  /// calls alone: they have made other calls, or their dumps were written later. Another call that they alone
  /// have completed says nothing of a device.
  void find_few() {
    for (const JobCall& call : progresses_.pending()) {
      const bool needs_members = call.operation().kind == Operation::Kind::collective && tells_how_far(call);
      if (!needs_members || !is_completed_by_few(call.id())) continue;
      for (const int member : call.group().members)
        if (has_completed(member, call.id())) few_.insert(member);
    }
  }

  bool has_completed(int rank, const CollectiveId& id) const {
    const auto dump = job_.dump_of(rank);
    return dump && progresses_.has_completed(*dump, id);
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
    const bool is_behind = furthest_.of(id.group).sequence >= id.sequence;
    if (progresses_.has_completed_calls() || !job_.groups[id.group].has_status || !is_behind) return false;
    const auto [known, is_new] = are_completed_by_few_.try_emplace(id, false);
    if (!is_new) return known->second;
    std::int64_t balance = 0;
    for (const int member : job_.groups[id.group].members) {
      const auto dump = job_.dump_of(member);
      if (!dump) continue;
      balance += progresses_.is_pending(*dump, id) ? 1 : 0;
      balance -= progresses_.has_completed(*dump, id) ? 1 : 0;
    }
    return known->second = balance > 0;
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
    lags_[dump] =
        sentence("why_received", {{"call", sim::printable_text(call.recording().operation(*call.recorded))},
                                  {"group", group_words(call.group())},
                                  {"rank", peer}});
  }

  const Job& job_;
  const Progresses& progresses_;
  bool takes_all_to_alls_;
  Furthest furthest_;
  std::map<CollectiveId, bool> are_completed_by_few_;
  std::set<int> few_;  // ranks
  Lags lags_;
};

}  // namespace

Lags lags_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls) {
  return LagFinder(job, progresses, all_to_alls).find();
}

}  // namespace verify
