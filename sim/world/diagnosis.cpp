#include "sim/world/diagnosis.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <utility>

#include "sim/base/check.h"
#include "sim/world/agreement.h"
#include "sim/world/call_order.h"

namespace sim {

namespace {

/// A collective or a message that some ranks wait for: the slots that wait, and the slots that have not come.
struct Wait {
  const GroupState* group;
  std::int64_t sequence;
  std::vector<int> waiting;
  std::vector<int> missing;
};

class Diagnosis {
 public:
  Diagnosis(const RankStates& ranks, const GroupTable& groups)
      : ranks_(ranks), groups_(groups), waits_of_(ranks.size(), -1), explained_(ranks.size(), false) {}

  std::vector<Finding> find() {
    collect_waits();
    find_thrown();
    find_disagreements();
    find_waits_for_the_ended();
    find_cycles();
    if (findings_.empty()) find_lost_messages();
    find_pending_work();
    if (findings_.empty()) find_orders();
    for (int slot = 0; slot < slots() && findings_.empty(); ++slot) {
      SIM_CHECK(rank_at(slot).status == RankStatus::returned);
    }
    return std::move(findings_);
  }

 private:
  const RankState& rank_at(int slot) const { return *ranks_[static_cast<std::size_t>(slot)]; }
  int slots() const { return static_cast<int>(ranks_.size()); }
  /// Returns the slot of a global rank, which is its index among the ranks that run; -1 if it does not run.
  int slot_of(int rank) const {
    const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank,
                                        [](const auto& state, int wanted) { return state->rank < wanted; });
    return found == ranks_.end() || (*found)->rank != rank ? -1 : static_cast<int>(found - ranks_.begin());
  }
  bool is_explained(int slot) const { return explained_[static_cast<std::size_t>(slot)]; }

  // ---- waits between ranks ----

  void collect_waits() {
    std::map<std::pair<const GroupState*, std::int64_t>, int> known;  // only looked up
    for (int slot = 0; slot < slots(); ++slot) {
      const PostedCall* call = rank_at(slot).waits_for;
      if (call == nullptr) continue;
      int wait = static_cast<int>(waits_.size());
      if (is_point_to_point(call->call.operation)) {
        const int peer = slot_of(call->group_state.group.rank_at(call->call.peer));
        waits_.push_back({&call->group_state, call->call.sequence, {}, {peer}});
      } else {
        const auto [entry, is_new] = known.try_emplace({&call->group_state, call->call.sequence}, wait);
        if (is_new) waits_.push_back({&call->group_state, call->call.sequence, {}, absent(*call)});
        wait = entry->second;
      }
      waits_[static_cast<std::size_t>(wait)].waiting.push_back(slot);
      waits_of_[static_cast<std::size_t>(slot)] = wait;
    }
    waits_for_slot_.resize(ranks_.size());
    for (std::size_t wait = 0; wait < waits_.size(); ++wait) {
      for (const int slot : waits_[wait].missing) {
        waits_for_slot_[static_cast<std::size_t>(slot)].push_back(static_cast<int>(wait));
      }
    }
  }

  /// Returns the calls that have arrived at a collective, in the order of the group. They are kept in the
  /// order of their arrival, which is that of the schedule.
  static std::vector<PostedCall*> in_order(const Instance& instance) {
    std::vector<PostedCall*> calls = instance.arrived;
    std::sort(calls.begin(), calls.end(),
              [](const PostedCall* a, const PostedCall* b) { return a->place < b->place; });
    return calls;
  }

  /// Returns the calls of a collective, one for each place; null if that member has not come.
  static std::vector<const PostedCall*> by_place(const GroupState& group, const Instance& instance) {
    std::vector<const PostedCall*> calls(group.group.members.size(), nullptr);
    for (const PostedCall* call : instance.arrived) calls[static_cast<std::size_t>(call->place)] = call;
    return calls;
  }

  /// Returns the slots of the members that have not arrived at a collective.
  std::vector<int> absent(const PostedCall& call) const {
    GroupState& group = call.group_state;
    std::vector<int> slots;
    const std::vector<const PostedCall*> calls = by_place(group, group.instance(call.sequence()));
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const int slot = slot_of(group.group.members[place]);
      if (calls[place] == nullptr && slot >= 0) slots.push_back(slot);
    }
    return slots;
  }

  /// Marks these slots, and all that wait for them directly or indirectly, as explained by a finding.
  void explain(std::vector<int> queue) {
    while (!queue.empty()) {
      const int slot = queue.back();
      queue.pop_back();
      if (is_explained(slot)) continue;
      explained_[static_cast<std::size_t>(slot)] = true;
      for (const int wait : waits_for_slot_[static_cast<std::size_t>(slot)]) {
        const std::vector<int>& waiting = waits_[static_cast<std::size_t>(wait)].waiting;
        queue.insert(queue.end(), waiting.begin(), waiting.end());
      }
    }
  }

  // ---- facts ----

  CallFacts stand_of(int slot) const {
    const RankState& rank = rank_at(slot);
    if (rank.waits_for != nullptr) {
      return facts_of(rank.waits_for->call, rank.waits_for->group_state.group, rank.rank, "waits in");
    }
    if (rank.recorder->calls().empty()) return {.rank = rank.rank, .state = "has ended and had made no call"};
    return facts_of(rank.recorder->calls().back(), rank.rank,
                    fmt::format("has ended after {} calls; the last:", rank.recorder->number_of_calls()));
  }

  std::vector<int> global(const std::vector<int>& slots) const {
    std::vector<int> ranks;
    for (const int slot : slots) ranks.push_back(rank_at(slot).rank);
    return ranks;
  }

  // ---- findings ----

  /// Finds what ranks threw: first those that had a reason, then those that threw because another did.
  void find_thrown() {
    for (const bool for_another : {false, true}) {
      std::vector<const RankState*> threw;
      for (int slot = 0; slot < slots(); ++slot) {
        const RankState& rank = rank_at(slot);
        if (rank.threw == nullptr || rank.threw_for_another != for_another) continue;
        threw.push_back(&rank);
        explain({slot});
      }
      for (Finding& finding : findings_of_thrown(threw)) findings_.push_back(std::move(finding));
    }
  }

  void find_disagreements() {
    for (const auto& [name, group] : groups_) {
      find_disagreement(*group, group->first);
      for (const auto& [sequence, instance] : group->later) find_disagreement(*group, instance);
      for (const auto& [places, channel] : group->channels) {
        if (channel.sends.empty() || channel.receives.empty()) continue;
        report(*group, channel);
      }
    }
  }

  void find_disagreement(const GroupState& group, const Instance& instance) {
    if (instance.arrived.empty()) return;
    const auto difference = disagreement(in_order(instance));
    if (difference) report(*difference, group, instance);
  }

  void report(const Disagreement& difference, const GroupState& group, const Instance& instance) {
    Finding finding{.code = difference.code,
                    .sentence = difference.sentence,
                    .rule = difference.rule,
                    .hint = difference.hint};
    std::vector<int> involved;
    const std::vector<const PostedCall*> calls = by_place(group, instance);
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const int slot = slot_of(group.group.members[place]);
      const PostedCall* call = calls[place];
      if (call == nullptr) {
        if (slot >= 0) add_facts(finding, stand_of(slot));
        continue;
      }
      add_facts(finding, facts_of(call->call, group.group, rank_at(slot).rank, "arrived at"));
      involved.push_back(slot);
    }
    findings_.push_back(std::move(finding));
    explain(std::move(involved));
  }

  void report(const GroupState& group, const Channel& channel) {
    const PostedSend& send = channel.sends.front();
    const PostedCall& receive = *channel.receives.front();
    const auto difference = disagreement(send.call(), receive.call);
    const int sender = group.group.rank_at(receive.call.peer);
    Finding finding{.code = difference->code,
                    .sentence = fmt::format("a message from rank {} to rank {}: {}", sender,
                                            receive.rank_state.rank, difference->sentence),
                    .rule = difference->rule,
                    .hint = difference->hint};
    add_facts(finding, facts_of(send.call(), group.group, sender, "sends"));
    add_facts(finding, facts_of(receive.call, group.group, receive.rank_state.rank, "receives"));
    findings_.push_back(std::move(finding));
    explain({slot_of(sender), slot_of(receive.rank_state.rank)});
  }

  void find_waits_for_the_ended() {
    for (const Wait& wait : waits_) {
      if (is_explained(wait.waiting.front())) continue;
      std::vector<int> ended;
      std::copy_if(wait.missing.begin(), wait.missing.end(), std::back_inserter(ended),
                   [&](int slot) { return rank_at(slot).status == RankStatus::returned; });
      if (ended.empty()) continue;
      findings_.push_back(about_the_ended(wait, ended));
      explain(wait.waiting);
    }
  }

  Finding about_the_ended(const Wait& wait, const std::vector<int>& ended) const {
    const Call& call = rank_at(wait.waiting.front()).waits_for->call;
    const auto called_here = [&](int slot) { return rank_at(slot).recorder->has_call_in(wait.group->group); };
    Finding finding;
    const bool several = wait.waiting.size() > 1;
    if (is_point_to_point(call.operation)) {
      const bool sends = call.operation == Operation::send;
      finding.code = sends ? "unmatched_send" : "unmatched_recv";
      finding.rule = "each send has a recv on the other side, and each recv a send";
      finding.hint = sends ? "add a recv on the other side, or remove the send"
                           : "add a send on the other side, or remove the recv";
    } else {
      finding.code = std::any_of(ended.begin(), ended.end(), called_here) ? "left_early" : "missing_ranks";
      if (call.operation == Operation::new_group || call.operation == Operation::split) {
        finding.code = "group_not_created_by_all";
      }
      finding.rule = "every member of a group makes every call of the group";
      finding.hint = "look for the branch or the loop bound in which these ranks differ";
    }
    finding.sentence =
        fmt::format("{} wait{} in '{}' for {}, which {} ended without making the matching call",
                    text_of_ranks(global(wait.waiting)), several ? "" : "s", call.site.name,
                    text_of_ranks(global(ended)), ended.size() > 1 ? "have" : "has");
    for (const int slot : ended) add_facts(finding, stand_of(slot));
    for (const int slot : wait.waiting) add_facts(finding, stand_of(slot));
    return finding;
  }

  void find_cycles() {
    constexpr int kMostCycles = 8;
    for (int found = 0; found < kMostCycles; ++found) {
      const std::vector<int> cycle = shortest_cycle();
      if (cycle.empty()) return;
      Finding finding{
          .code = "deadlock",
          .sentence = fmt::format("{} wait for each other in a cycle", text_of_ranks(global(cycle))),
          .rule = "no cyclic wait: a send waits for its recv, a collective for all members",
          .hint =
              "make the calls in the same order on every rank, send and receive in a batch, or set "
              "--eager-bytes"};
      for (const int slot : cycle) add_facts(finding, stand_of(slot));
      findings_.push_back(std::move(finding));
      explain(cycle);
    }
  }

  bool waits_unexplained(int slot) const { return !is_explained(slot) && rank_at(slot).waits_for != nullptr; }

  /// Returns the shortest cycle of waits. In a very large world it returns a short one, which need not be the
  /// shortest.
  std::vector<int> shortest_cycle() const {
    std::vector<int> starts = some_cycle();
    if (starts.empty()) return {};
    for (int slot = 0; slot < slots(); ++slot) {
      if (waits_unexplained(slot)) starts.push_back(slot);
    }
    std::vector<int> best;
    std::int64_t budget = 5'000'000;  // steps
    for (const int start : starts) {
      if (best.size() == 2 || (budget <= 0 && !best.empty())) break;
      std::vector<int> cycle = cycle_through(start, budget);
      if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
    }
    return best;
  }

  /// Returns one cycle of waits. A rank that waits and is unexplained waits only for such ranks, so a walk
  /// along the first missing rank of each must return to a rank that it has visited.
  std::vector<int> some_cycle() const {
    int slot = 0;
    while (slot < slots() && !waits_unexplained(slot)) ++slot;
    if (slot == slots()) return {};
    std::vector<std::ptrdiff_t> position(ranks_.size(), -1);
    std::vector<int> walk;
    while (position[static_cast<std::size_t>(slot)] < 0) {
      SIM_CHECK(waits_unexplained(slot));
      position[static_cast<std::size_t>(slot)] = std::ssize(walk);
      walk.push_back(slot);
      slot = waits_[static_cast<std::size_t>(waits_of_[static_cast<std::size_t>(slot)])].missing.front();
    }
    return {walk.begin() + position[static_cast<std::size_t>(slot)], walk.end()};
  }

  /// Returns the shortest cycle of waits through a rank, or an empty list. The search is breadth-first and
  /// looks at each wait once.
  std::vector<int> cycle_through(int start, std::int64_t& budget) const {
    std::vector<int> came_from(ranks_.size(), -1);
    std::vector<bool> seen(waits_.size(), false);
    budget -= static_cast<std::int64_t>(came_from.size() / 16);  // the cost of allocating both lists
    std::vector<int> queue = {start};
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const int slot = queue[next];
      const int wait = waits_of_[static_cast<std::size_t>(slot)];
      if (wait < 0 || seen[static_cast<std::size_t>(wait)]) continue;
      seen[static_cast<std::size_t>(wait)] = true;
      for (const int missing : waits_[static_cast<std::size_t>(wait)].missing) {
        --budget;
        if (missing == start) {
          std::vector<int> cycle = {slot};
          while (cycle.back() != start) cycle.push_back(came_from[static_cast<std::size_t>(cycle.back())]);
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        int& known = came_from[static_cast<std::size_t>(missing)];
        if (is_explained(missing) || known >= 0) continue;
        known = slot;
        queue.push_back(missing);
      }
    }
    return {};
  }

  /// Finds eager sends that no recv ever matched.
  void find_lost_messages() {
    for (const auto& [name, group] : groups_) {
      for (const auto& [places, channel] : group->channels) {
        if (channel.sends.empty()) continue;
        const int sender = group->group.rank_at(places.first);
        Finding finding{
            .code = "unmatched_send",
            .sentence = fmt::format(
                "rank {} sent {} to rank {} that nobody received", sender,
                channel.sends.size() == 1 ? "a message" : fmt::format("{} messages", channel.sends.size()),
                group->group.rank_at(places.second)),
            .rule = "each send has a recv on the other side",
            .hint = "add a recv on the other side, or remove the send"};
        for (const PostedSend& message : channel.sends) {
          add_facts(finding, facts_of(message.call(), group->group, sender, "sends"));
        }
        findings_.push_back(std::move(finding));
      }
    }
  }

  void find_pending_work() {
    for (int slot = 0; slot < slots(); ++slot) {
      const RankState& rank = rank_at(slot);
      if (rank.status != RankStatus::returned || rank.recorder->calls().not_waited_for() == 0) continue;
      Finding finding{.code = "pending_work",
                      .rule = "every Work is waited for before its rank ends",
                      .hint = "wait() on the Work that the call returned"};
      for (const CallRecord& call : rank.recorder->calls()) {
        if (!call.waited) add_facts(finding, facts_of(call, rank.rank, "started, and never waited for,"));
      }
      const std::size_t left = finding.calls.size() + static_cast<std::size_t>(finding.more_calls);
      finding.sentence = fmt::format("rank {} ended without wait() for {} it had started", rank.rank,
                                     left == 1 ? "a call" : fmt::format("{} calls", left));
      findings_.push_back(std::move(finding));
    }
  }

  void find_orders() {
    std::vector<RankCalls> calls;
    for (const auto& rank : ranks_) calls.push_back({rank->rank, rank->recorder->calls()});
    if (auto finding = find_call_cycle(calls)) findings_.push_back(std::move(*finding));
  }

  const RankStates& ranks_;
  const GroupTable& groups_;
  std::vector<Wait> waits_;
  std::vector<int> waits_of_;                     // by slot: index of its wait in waits_, -1 for none
  std::vector<std::vector<int>> waits_for_slot_;  // by slot: indices of the waits that wait for it
  std::vector<bool> explained_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> diagnose(const RankStates& ranks, const GroupTable& groups) {
  return Diagnosis(ranks, groups).find();
}

}  // namespace sim
