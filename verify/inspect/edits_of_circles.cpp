#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "verify/inspect/edits.h"

namespace verify {

namespace {

bool has(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

// ---- uneven stages
//
// Pipeline stages that have another number of microbatches than the other stages.
//
// A stage begins a microbatch with a message from the stage before it, and passes it on to the next one. In
// a step that ends, all stages begin equally many. One with one more or one less holds its neighbours in a
// message that has no other half, while others go on to the end of the step.
//
// Exact   Messages are counted from the last collective that ranks of all stages have completed, or from the
//         begin of a dump that has every call, to the call that holds the rank. All ranks of a stage, in all
//         pipelines, must have one number, and all stages but one, too: of two stages both are named.
//         Nothing is found where a dump does not tell its number, or where a stage has begun none.

/// The ranks of a stage, and how many microbatches each of them has begun.
struct StageCount {
  std::vector<int> ranks;
  std::int64_t begun = 0;
};

class StageCounter {
 public:
  explicit StageCounter(const Evidence& know) : know_(know) {}

  /// Returns the ranks of the odd stage and its number, or those of both stages of a pipeline of two.
  std::optional<Facts> find() {
    if (!count()) return std::nullopt;
    std::map<std::int64_t, std::vector<std::ptrdiff_t>> stages_by_number;
    for (const auto& [stage, one] : stages_) stages_by_number[one.begun].push_back(stage);
    if (stages_by_number.size() != 2 || stages_by_number.contains(0)) return std::nullopt;
    const auto& [fewer, first] = *stages_by_number.begin();
    const auto& [more, second] = *stages_by_number.rbegin();
    if (stages_.size() == 2) return both_stages();
    if (first.size() > 1 && second.size() > 1) return std::nullopt;
    const bool has_more = second.size() == 1;
    Facts facts = facts_of(has_more ? second.front() : first.front());
    facts.m = has_more ? fewer : more;
    return facts;
  }

 private:
  Facts facts_of(std::ptrdiff_t stage) const {
    const StageCount& one = stages_.at(stage);
    return {.sentence = counts_from_begin_ ? "uneven_from_begin" : "uneven_from_call",
            .ranks = one.ranks,
            .n = one.begun,
            .at = stage};
  }

  Facts both_stages() const {
    Facts facts = facts_of(stages_.begin()->first);
    facts.others = stages_.rbegin()->second.ranks;
    facts.m = stages_.rbegin()->second.begun;
    return facts;
  }

  /// Counts the microbatches of every stage. Returns whether all are known.
  bool count() {
    std::set<std::size_t> sizes;
    for (const JobGroup& group : know_.job.groups) {
      if (!group.is_pipeline) continue;
      if (group.may_lack_members) return false;
      sizes.insert(group.members.size());
    }
    if (sizes.size() != 1 || *sizes.begin() < 2) return false;
    stage_count_ = *sizes.begin();
    for (const std::size_t dump : know_.job.dumps()) {
      if (know_.job.recordings[dump].is_truncated) return false;
      const std::optional<std::int64_t> begun = begun_by(dump);
      if (!begun) return false;
      StageCount& stage = stages_[know_.job.stage_of(dump)];
      if (!stage.ranks.empty() && stage.begun != *begun) return false;
      stage.begun = *begun;
      stage.ranks.push_back(know_.job.rank_of(dump));
    }
    return stages_.size() == stage_count_;
  }

  /// Counts a message. Of two stages, the first one passes microbatches on, and the second one takes them.
  void count(const JobCall& call, std::int64_t& taken, std::int64_t& passed) const {
    const auto stages = static_cast<int>(stage_count_), own = static_cast<int>(know_.job.stage_of(call.dump));
    const Operation& operation = call.operation();
    const bool receives = operation.kind == Operation::Kind::recv;
    if (receives && operation.from == (own + stages - 1) % stages && (stages > 2 || own == 1)) ++taken;
    if (!receives && operation.to == (own + 1) % stages && (stages > 2 || own == 0)) ++passed;
  }

  /// Returns how many microbatches a rank has taken from the stage before it, or passed on, since the last
  /// call of all stages and up to the call that holds it; nothing where its dump does not tell. What its host
  /// has issued after that call counts for nothing.
  std::optional<std::int64_t> begun_by(std::size_t dump) {
    const Recording& recording = know_.job.recordings[dump];
    const std::vector<JobCall>& front = know_.progresses.of(dump).front;
    if (!recording.has_no_gaps()) return std::nullopt;
    std::int64_t taken = 0, passed = 0;
    for (std::size_t i = front.empty() ? recording.calls.size() : front.back().index() + 1; i-- > 0;) {
      const JobCall call = know_.job.call_at(dump, i);
      if (!call.is_collective()) {
        if (call.group().is_pipeline) count(call, taken, passed);
      } else if (call.is_completed() && is_of_all_stages(call.group_id())) {
        return std::max(taken, passed);
      }
    }
    if (!recording.is_whole()) return std::nullopt;
    counts_from_begin_ = true;
    return std::max(taken, passed);
  }

  /// Whether a group has ranks of all stages, and is no pipeline.
  bool is_of_all_stages(std::uint32_t index) {
    const auto [known, is_new] = is_of_all_.try_emplace(index, false);
    if (!is_new) return known->second;
    const JobGroup& group = know_.job.groups[index];
    if (group.is_pipeline || group.may_lack_members) return false;
    std::set<std::ptrdiff_t> stages;
    for (const int member : group.members)
      if (know_.job.dump_of(member)) stages.insert(know_.stage_of(member));
    return known->second = stages.size() == stage_count_;
  }

  const Evidence& know_;
  std::size_t stage_count_ = 0;
  std::map<std::ptrdiff_t, StageCount> stages_;
  std::map<std::uint32_t, bool> is_of_all_;  // by group
  bool counts_from_begin_ = false;           // a dump has no call of all stages
};

// ---- circles

class CircleJudge {
 public:
  CircleJudge(const Evidence& know, Explanation& found) : know_(know), found_(found) {}

  void judge() {
    if (know_.ends.circles.empty() || add_uneven_stages()) return;
    for (const Component& component : know_.ends.circles) add_circle(component);
    // All suspects depart from their stages, or nothing is said of departures.
    if (found_.departed.size() == found_.ranks.size() && !found_.departed.empty())
      found_.kind = EditKind::departed;
    else
      found_.departed.clear();
  }

 private:
  using Component = std::vector<std::size_t>;

  std::vector<int> shortest(const Component& component) const {
    return shortest_circle(know_.graph.edges, component, know_.graph.world);
  }

  std::vector<int> ranks_of(const Component& component) const {
    std::vector<int> ranks;
    for (const std::size_t node : component)
      if (node < know_.graph.world) ranks.push_back(static_cast<int>(node));
    return ranks;
  }

  /// Names the ranks of stages that have another number of microbatches, if every circle has one of them.
  bool add_uneven_stages() {
    const std::optional<Facts> uneven = StageCounter(know_).find();
    if (!uneven) return false;
    std::vector<int> odd = uneven->ranks;
    odd.insert(odd.end(), uneven->others.begin(), uneven->others.end());
    const auto has_odd = [&](const Component& component) {
      return std::ranges::any_of(ranks_of(component), [&](int rank) { return has(odd, rank); });
    };
    if (!std::ranges::all_of(know_.ends.circles, has_odd)) return false;
    for (const Component& component : know_.ends.circles) found_.circles.push_back(shortest(component));
    found_.kind = EditKind::uneven;
    found_.facts = *uneven;
    for (const int rank : odd) found_.add(rank, SuspectKind::order, *uneven);
    return true;
  }

  void add_circle(const Component& component) {
    const std::vector<int> ranks = ranks_of(component);
    std::vector<int> circle = shortest(component);
    if (std::ranges::any_of(circle, [&](int rank) { return know_.may_have_lost(rank); })) return;
    if (!add_departing(ranks)) add_shortest(ranks, circle);
    found_.circles.push_back(std::move(circle));
  }

  /// Adds the ranks of the shortest circle. If it is a pair, others may wait for each other, too.
  void add_shortest(const std::vector<int>& ranks, const std::vector<int>& circle) {
    std::set<int> pairs(circle.begin(), circle.end());
    for (const int rank : circle.size() == 2 ? ranks : std::vector<int>()) {
      for (const std::size_t call : know_.front_of(rank))
        for (const int other : know_.graph.calls[call].awaited)
          if (other != rank && has(ranks, other) && know_.waits_for(other, rank)) pairs.insert({rank, other});
    }
    for (const int rank : told_of({pairs.begin(), pairs.end()}, circle)) {
      const HoldingCall& call = know_.first_call_of(rank);
      found_.add(rank, SuspectKind::order,
                 {.sentence = "why_in_circle", .others = call.awaited, .call = call});
    }
  }

  /// Of ranks in pairs, returns all if they are two parties of one size, each in calls of one kind, or wait
  /// in two calls, one a message; the fewer ones if they wait in two collectives; or else the circle.
  std::vector<int> told_of(const std::vector<int>& ranks, const std::vector<int>& circle) {
    std::map<std::pair<std::string, std::string>, std::vector<int>> parties;
    std::set<const HoldingCall*> calls;
    for (const int rank : ranks) {
      const HoldingCall& call = know_.first_call_of(rank);
      const auto recorded = call.recorded_in(know_.job);
      parties[{know_.job.groups[call.group].description, recorded ? recorded->operation().name : ""}]
          .push_back(rank);
      calls.insert(&call);
    }
    if (parties.size() != 2) return circle;
    const std::vector<int>&one = parties.begin()->second, &other = parties.rbegin()->second;
    if (one.size() == other.size()) return ranks;
    if (calls.size() != 2) return circle;
    if (std::ranges::any_of(calls, &HoldingCall::is_message)) return ranks;
    found_.is_smaller = true;
    return one.size() < other.size() ? one : other;
  }

  /// Names the ranks of a circle, but not all, that depart from the calls of their pipeline stage. Returns
  /// whether there are such ranks.
  bool add_departing(const std::vector<int>& ranks) {
    if (!departing_) departing_ = odd_programs(know_.job, Elements::left_out);
    std::vector<OddProgram> found = *departing_;
    std::erase_if(found, [&](const OddProgram& one) { return !has(ranks, one.rank); });
    if (found.empty() || found.size() == ranks.size()) return false;
    for (const OddProgram& one : found)
      found_.add(one.rank, SuspectKind::order,
                 {.sentence = "why_departed",
                  .ranks = {know_.job.rank_of(one.others.dump)},
                  .call = one.own,
                  .other = one.others});
    found_.departed.insert(found_.departed.end(), found.begin(), found.end());
    return true;
  }

  const Evidence& know_;
  Explanation& found_;
  std::optional<std::vector<OddProgram>> departing_;  // of the whole job, once a circle asks for them
};

}  // namespace

void find_circles(const Evidence& know, Explanation& found) { CircleJudge(know, found).judge(); }

}  // namespace verify
