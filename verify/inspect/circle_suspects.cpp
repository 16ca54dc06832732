#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "verify/inspect/sentences.h"
#include "verify/inspect/suspect_rules.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

bool has(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

// ---- odd peers
//
// Messages between places of a group that are as far from each other as those of no other message: one that
// is sent to a wrong peer, or received from one. In a pipeline messages go to the next place, to the one
// before, or from one end to the other.
//
// Exact   A distance is usual in groups of one description where a message has ended that went as far, in
//         either direction, or where two ranks have made one. Nothing is odd where no distance is known to
//         be usual, unless the dump of the rank has every call of it.

/// The distances that are usual, by the description of the group.
using Distances = std::map<std::string, std::set<int>>;

int distance_of(const JobCall& call) { return std::abs(call.operation().to - call.operation().from); }

Distances usual_distances(const Job& job) {
  std::map<std::pair<std::string, int>, std::size_t> first;  // the dump that is the first with such a message
  Distances usual;
  for (const JobCall call : job.calls()) {
    if (!call.operation().is_message()) continue;
    const std::string& kind = call.group().description;
    const std::size_t dump = first.try_emplace({kind, distance_of(call)}, call.dump).first->second;
    if (call.is_completed() || dump != call.dump) usual[kind].insert(distance_of(call));
  }
  return usual;
}

/// Whether a message goes to, or comes from, an odd place.
bool is_odd(const JobCall& call, const Distances& usual) {
  if (call.operation().from < 0 || call.operation().to < 0) return false;
  const auto of_kind = usual.find(call.group().description);
  return of_kind == usual.end() ? call.recording().is_whole() : !of_kind->second.contains(distance_of(call));
}

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
//         Nothing is found where a dump does not tell its number, where a stage has begun none, or where
//         early dumps are among them.
// Calls   Such numbers are seen, too, in the midst of a step that hangs for another reason, so this only
//         tells apart ranks that wait for each other in a circle.

/// The ranks of a stage, and how many microbatches each of them has begun.
struct StageCount {
  std::vector<int> ranks;
  std::int64_t begun = 0;
};

class StageCounter {
 public:
  explicit StageCounter(const Evidence& know) : know_(know) {}

  /// Returns the ranks of the odd stage, or of both stages of a pipeline of two, with words: "ranks 4 to 7,
  /// stage 1 of the pipeline, have begun 5 microbatches since ..., and the other stages 4".
  std::optional<InspectionFinding> find() {
    if (!count()) return std::nullopt;
    std::map<std::int64_t, std::vector<std::ptrdiff_t>> stages_by_number;
    for (const auto& [stage, one] : stages_) stages_by_number[one.begun].push_back(stage);
    if (stages_by_number.size() != 2 || stages_by_number.contains(0)) return std::nullopt;
    const auto& [fewer, first] = *stages_by_number.begin();
    const auto& [more, second] = *stages_by_number.rbegin();
    if (stages_.size() == 2) return both_stages();
    if (first.size() > 1 && second.size() > 1) return std::nullopt;
    const bool has_more = second.size() == 1;
    const std::ptrdiff_t odd = has_more ? second.front() : first.front();
    return InspectionFinding{
        .text = sentence("detail_stage_odd", {{"stage", words_of(odd)}, {"others", has_more ? fewer : more}}),
        .ranks = stages_.at(odd).ranks};
  }

 private:
  InspectionFinding both_stages() const {
    const auto& [stage, one] = *stages_.rbegin();
    InspectionFinding found{.text = sentence("detail_stage_two", {{"stage", words_of(stages_.begin()->first)},
                                                                  {"ranks", one.ranks},
                                                                  {"number", stage},
                                                                  {"begun", one.begun}}),
                            .ranks = stages_.begin()->second.ranks};
    found.ranks.insert(found.ranks.end(), one.ranks.begin(), one.ranks.end());
    std::ranges::sort(found.ranks);
    return found;
  }

  std::string words_of(std::ptrdiff_t stage) const {
    const StageCount& one = stages_.at(stage);
    return sentence("detail_stage", {{"ranks", one.ranks},
                                     {"stage", stage},
                                     {"n", one.begun},
                                     {"since", counts_from_begin_ ? "the begin of the dumps"
                                                                  : "the last call of all stages"}});
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
      if (know_.job.is_early[dump] || know_.job.recordings[dump].is_truncated) return false;
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
  /// has issued behind that call counts for nothing.
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

// ---- circle suspects

class CircleJudge {
 public:
  using Component = std::vector<std::size_t>;

  CircleJudge(const Evidence& know, Suspects& suspects) : know_(know), found_(suspects) {}

  void judge(const std::vector<Component>& components) {
    if (add_uneven_stages(components)) return;
    for (const Component& component : components) add_circle(component);
    if (found_.ranks.empty()) return;
    // Only of one circle can more be said than that it is one, or that all suspects depart from their stages.
    const bool do_all_depart = !found_.departed.empty() && found_.departed.size() == found_.ranks.size();
    if (!do_all_depart) found_.departed.clear();
    if (do_all_depart && (found_.circles.size() > 1 || found_.detail.empty())) found_.seen = Seen::departed;
    if (found_.circles.size() == 1) return;
    if (do_all_depart) return;
    found_.seen = are_alone_ ? Seen::alone : Seen::circle;
    if (!are_alone_) find_facing_stages();
  }

 private:
  std::vector<int> shortest(const Component& component) const {
    return shortest_circle(know_.graph.edges, component, know_.graph.world);
  }

  /// Returns the calls of a component.
  std::vector<const HoldingCall*> calls_of(const Component& component) const {
    std::vector<const HoldingCall*> calls;
    for (const std::size_t node : component)
      if (node >= know_.graph.world) calls.push_back(&know_.graph.calls[node - know_.graph.world]);
    return calls;
  }

  /// Names the ranks of stages that have another number of microbatches, where these are in circles. Returns
  /// whether there are such stages.
  bool add_uneven_stages(const std::vector<Component>& components) {
    if (components.empty()) return false;
    const std::optional<InspectionFinding> uneven = StageCounter(know_).find();
    const auto has_odd = [&](const Component& component) {
      return std::ranges::any_of(uneven->ranks, [&](int rank) {
        return std::ranges::find(component, static_cast<std::size_t>(rank)) != component.end();
      });
    };
    if (!uneven || !std::ranges::all_of(components, has_odd)) return false;
    for (const Component& component : components) found_.circles.push_back(shortest(component));
    found_.seen = Seen::uneven;
    found_.detail = uneven->text;
    for (const int rank : uneven->ranks) found_.add(rank, SuspectKind::order, capital(uneven->text) + ".");
    return true;
  }

  /// Returns the ranks of the call that holds the fewest of these; none where several calls hold as few.
  std::vector<int> fewest_in_a_call(const std::vector<int>& ranks) const {
    std::map<std::size_t, std::vector<int>> by_call;
    for (const int rank : ranks) by_call[know_.front_of(rank).front()].push_back(rank);
    const auto size_of = [](const auto& one) { return one.second.size(); };
    const auto few = std::ranges::min_element(by_call, {}, size_of);
    const bool is_alone = std::ranges::count(by_call, size_of(*few), size_of) == 1;
    return is_alone && by_call.size() > 1 ? few->second : std::vector<int>();
  }

  void add_circle(const Component& component) {
    std::vector<int> ranks;
    for (const std::size_t node : component)
      if (node < know_.graph.world) ranks.push_back(static_cast<int>(node));
    std::vector<int> circle = shortest(component);
    if (std::ranges::any_of(circle, [&](int rank) { return know_.may_have_lost(rank); })) return;
    if (!add_odd_peer(ranks) && !add_missing(component)) add_alone_or_all(component, ranks, circle);
    found_.circles.push_back(std::move(circle));
  }

  void add_alone_or_all(const Component& component, const std::vector<int>& ranks, std::vector<int>& circle) {
    std::vector<int> alone = odd_ranks_of(component);
    if (alone.empty()) alone = fewest_in_a_call(ranks);
    // A rank that a message holds is no odder than the other end of the message.
    const bool names_alone =
        are_missed(alone, circle, component) &&
        std::ranges::none_of(alone, [&](int rank) { return know_.first_call_of(rank).is_message; });
    if (!names_alone) {
      if (add_departing(ranks)) return;
      found_.seen = Seen::circle;
      widen(ranks, circle);
      add_other_peers(circle);
    }
    are_alone_ = names_alone && (found_.circles.empty() || are_alone_);
    if (are_alone_) found_.seen = Seen::alone;
    for (const int rank : names_alone ? alone : circle) {
      const HoldingCall& call = know_.first_call_of(rank);
      const char* const way = ranks.size() == 2 ? "that rank waits" : "they wait, by others or directly,";
      found_.add(
          rank, SuspectKind::order,
          sentence("why_in_circle", {{"call", know_.words_of(call)}, {"ranks", call.awaited}, {"way", way}}));
    }
  }

  void see(Seen seen, std::string detail) {
    found_.seen = seen;
    found_.detail = std::move(detail);
  }

  /// Names the only rank of a circle that is held by a message between odd places, while
  /// another one waits for a message of it. Returns whether there is such a rank.
  bool add_odd_peer(const std::vector<int>& ranks) {
    const HoldingCall* found = nullptr;
    for (const int rank : ranks) {
      const HoldingCall* const own = odd_message_of(rank);
      if (own == nullptr || know_.message_that_awaits(rank) == nullptr) continue;
      if (found != nullptr) return false;
      found = own;
    }
    if (found == nullptr) return false;
    see(Seen::odd_peer, know_.words_of(*found));
    found_.add(found->waiting.front(), SuspectKind::order,
               sentence("why_odd_peer", {{"call", found_.detail}}));
    return true;
  }

  const HoldingCall* odd_message_of(int rank) {
    for (const std::size_t index : know_.front_of(rank)) {
      const HoldingCall& call = know_.graph.calls[index];
      if (!call.is_message || !call.awaits()) continue;
      if (!usual_) usual_ = usual_distances(know_.job);
      if (is_odd(*call.recorded_in(know_.job), *usual_)) return &call;
    }
    return nullptr;
  }

  /// Where each of several circles has ranks of two pipeline stages, says in which calls each stage waits.
  void find_facing_stages() {
    if (!know_.job.has_pipelines()) return;
    std::map<std::ptrdiff_t, std::vector<int>> by_stage;
    for (const int rank : found_.all()) by_stage[know_.stage_of(rank)].push_back(rank);
    if (by_stage.size() != 2) return;
    const auto has_both = [&](const std::vector<int>& circle) {
      std::set<std::ptrdiff_t> stages;
      for (const int rank : circle)
        if (found_.ranks.contains(rank)) stages.insert(know_.stage_of(rank));
      return stages.size() == 2;
    };
    const auto is_held_alike = [&](const auto& one) {
      return std::ranges::all_of(
          one.second, [&](int rank) { return way_of_holding(rank) == way_of_holding(one.second.front()); });
    };
    if (!std::ranges::all_of(found_.circles, has_both) || !std::ranges::all_of(by_stage, is_held_alike))
      return;
    const auto& [stage, ranks] = *by_stage.begin();
    const auto& [other_stage, others] = *by_stage.rbegin();
    see(Seen::facing, sentence("detail_stages", {{"stage", stage},
                                                 {"party", words_of_party(ranks, ranks.front())},
                                                 {"other", other_stage},
                                                 {"others", words_of_party(others, others.front())}}));
  }

  /// Adds to a circle of two ranks those that hold each other in the same ways: where a stage or a replica of
  /// the model makes a call of its own, each of its ranks is held by another one of the others.
  void widen(const std::vector<int>& ranks, std::vector<int>& circle) {
    if (circle.size() != 2) return;
    int one = circle[0], other = circle[1];  // `other` waits for fewer ranks
    if (know_.first_call_of(one).awaited.size() < know_.first_call_of(other).awaited.size())
      std::swap(one, other);
    if (way_of_holding(one) == way_of_holding(other)) return;
    std::set<int> party, others;
    for (const int rank : ranks) {
      if (way_of_holding(rank) != way_of_holding(other)) continue;
      for (const int facing : know_.first_call_of(rank).awaited) {
        if (!has(ranks, facing) || way_of_holding(facing) != way_of_holding(one)) continue;
        if (!know_.waits_for(facing, rank)) continue;
        party.insert(facing);
        others.insert(rank);
      }
    }
    if (party.size() != others.size() || party.size() < 2) return;
    see(Seen::facing,
        sentence("detail_facing", {{"party", words_of_party({party.begin(), party.end()}, one)},
                                   {"others", words_of_party({others.begin(), others.end()}, other)}}));
    party.insert(others.begin(), others.end());
    circle.assign(party.begin(), party.end());
  }

  /// Of two ranks that wait for each other, a batch of messages may hold one that waits for other ranks, too,
  /// which wait for it in the same way: then these have left out their halves as likely.
  void add_other_peers(std::vector<int>& circle) const {
    if (circle.size() != 2) return;
    const std::vector<int> ends = circle;
    for (const int rank : ends) {
      for (const std::size_t call : know_.front_of(rank)) {
        if (!know_.graph.calls[call].is_message) continue;
        for (const int peer : know_.graph.calls[call].awaited)
          if (!has(circle, peer) && know_.waits_for(peer, rank)) circle.push_back(peer);
      }
    }
    std::ranges::sort(circle);
  }

  /// Says in which calls ranks wait that are all held as one of them is.
  std::string words_of_party(const std::vector<int>& party, int example) const {
    std::set<std::uint32_t> groups;
    for (const int rank : party) groups.insert(know_.first_call_of(rank).group);
    const std::int64_t more = std::ssize(groups) - 1;
    return sentence("detail_party",
                    {{"ranks", party},
                     {"call", know_.words_of(know_.first_call_of(example))},
                     {"more", more == 0 ? "" : sentence("detail_party_more", {{"n", more}})}});
  }

  /// Names the ranks of a circle, but not all, that depart from the calls of their pipeline stage. Returns
  /// whether there are such ranks.
  bool add_departing(const std::vector<int>& ranks) {
    if (!departing_) departing_ = odd_programs(know_.job, Elements::left_out);
    std::vector<OddProgram> found = *departing_;
    std::erase_if(found, [&](const OddProgram& one) { return !has(ranks, one.rank); });
    if (found.empty() || found.size() == ranks.size()) return false;
    for (const OddProgram& one : found)
      found_.add(one.rank, SuspectKind::order, departure_words(know_.job, one));
    found_.departed.insert(found_.departed.end(), found.begin(), found.end());
    return true;
  }

  /// Returns the collectives of a circle that members have left out for which more ranks wait.
  std::vector<const HoldingCall*> missed_calls(const Component& component) const {
    std::vector<const HoldingCall*> found = calls_of(component);
    std::erase_if(found, [&](const HoldingCall* call) {
      return call->is_message || call->waiting.size() <= call->awaited.size() ||
             std::ranges::any_of(call->awaited, [&](int rank) {
               return know_.progresses.has_issued(*know_.job.dump_of(rank), call->id());
             });
    });
    return found;
  }

  /// Whether the collective that holds a rank waits for more ranks than it holds.
  bool is_in_smaller_part(int rank) const {
    const HoldingCall& call = know_.first_call_of(rank);
    return !call.is_message && call.waiting.size() < call.awaited.size();
  }

  /// Whether the call that holds a rank is a later one, by its number, than those that ranks at its place of
  /// other groups of the kind have made: it has left out what they wait in. Otherwise they may have left out
  /// the call that holds it.
  bool is_ahead_of_alike(int rank) const {
    const HoldingCall& own = know_.first_call_of(rank);
    bool has_others = false;
    for (const auto& [there, group] : know_.job.counterparts(rank, own.group)) {
      const std::int64_t last =
          know_.progresses.last_number(*know_.job.dump_of(there), group, own.is_message);
      if (last >= own.sequence) return false;
      has_others = has_others || last >= 0;
    }
    return has_others;
  }

  /// Names the ranks of a circle that are missed by most members of collectives; of several such ranks, those
  /// that wait themselves for most members of a collective. Returns whether they are told apart.
  bool add_missing(const Component& component) {
    const std::vector<const HoldingCall*> calls = missed_calls(component);
    std::set<int> missing, smaller;
    for (const HoldingCall* const call : calls) {
      for (const int rank : call->awaited) {
        missing.insert(rank);
        if (is_in_smaller_part(rank)) smaller.insert(rank);
      }
    }
    if (!smaller.empty()) missing = smaller;
    const auto more = [](const HoldingCall& call) { return call.waiting.size() - call.awaited.size(); };
    const HoldingCall* most = nullptr;
    for (const HoldingCall* const call : calls) {
      const bool are_all_missing =
          std::ranges::all_of(call->awaited, [&](int rank) { return missing.contains(rank); });
      if (are_all_missing && (most == nullptr || more(*call) > more(*most))) most = call;
    }
    if (most == nullptr || (smaller.empty() && most->awaited.size() < missing.size())) return false;
    const auto is_odd = [&](int rank) { return is_in_smaller_part(rank) || is_ahead_of_alike(rank); };
    if (!std::ranges::all_of(most->awaited, is_odd)) return false;
    name_missed(calls, *most, is_odd);
    return true;
  }

  /// Names the ranks of a call that are missed by most, and those of the calls of its kind that are missed
  /// alike: the ranks that a call of another group misses are held by the same call as those that this one
  /// misses, as where all ranks of a replica of the model save a checkpoint.
  template <typename IsOdd>
  void name_missed(const std::vector<const HoldingCall*>& calls, const HoldingCall& most,
                   const IsOdd& is_odd) {
    const HoldingCall& holding = know_.first_call_of(most.awaited.front());
    const auto is_alike = [&](const HoldingCall& one) {
      return one.group != most.group && one.awaited.size() == most.awaited.size() &&
             know_.job.groups[one.group].description == know_.job.groups[most.group].description &&
             std::ranges::all_of(one.awaited, [&](int rank) {
               return is_odd(rank) && &know_.first_call_of(rank) == &holding;
             });
    };
    std::int64_t groups = 0, named = 0;
    for (const HoldingCall* const other : calls) {
      if (other != &most && !is_alike(*other)) continue;
      ++groups;
      named += std::ssize(other->awaited);
      for (const int rank : other->awaited) {
        const HoldingCall& own = know_.first_call_of(rank);
        found_.add(rank, SuspectKind::order,
                   sentence("why_missing", {{"call", know_.words_of(*other)},
                                            {"ranks", other->waiting},
                                            {"own", know_.words_of(own)},
                                            {"awaited", own.awaited}}));
      }
    }
    const std::string more = groups == 1 ? "" : sentence("detail_missed_groups", {{"n", groups - 1}});
    see(Seen::missed, sentence("detail_missed", {{"call", know_.words_of(most)},
                                                 {"ranks", most.waiting},
                                                 {"groups", more},
                                                 {"named", named},
                                                 {"own", know_.words_of(holding)}}));
  }

  /// Whether ranks are of a circle and are missed in a collective of their component, and no other
  /// rank is missed in one by most of its members.
  bool are_missed(const std::vector<int>& ranks, const std::vector<int>& circle,
                  const Component& component) const {
    if (std::ranges::none_of(ranks, [&](int rank) { return has(circle, rank); })) return false;
    const auto is_among = [&](int rank) { return has(ranks, rank); };
    bool is_missed = false;
    for (const HoldingCall* const call : calls_of(component)) {
      if (call->is_message) continue;
      if (std::ranges::all_of(call->awaited, is_among)) {
        is_missed = true;
      } else if (2 * call->awaited.size() < know_.job.groups[call->group].members.size() &&
                 std::ranges::none_of(call->awaited, is_among)) {
        return false;
      }
    }
    return is_missed;
  }

  /// Returns the ranks that wait alone in the only collective of a circle whose other members, the larger
  /// part, are all held in one way; none where there is no such call.
  std::vector<int> odd_ranks_of(const Component& component) const {
    std::vector<int> odd;
    for (const HoldingCall* const call : calls_of(component)) {
      if (call->is_message || 2 * call->waiting.size() >= know_.job.groups[call->group].members.size())
        continue;
      std::set<std::pair<std::string, std::string>> held;
      for (const int rank : call->awaited)
        if (!waits_only_for(rank, call->waiting)) held.insert(way_of_holding(rank));
      if (held.size() > 1 || call->awaited.size() < 2) continue;
      if (!odd.empty()) return {};
      odd = call->waiting;
    }
    return odd;
  }

  bool waits_only_for(int rank, const std::vector<int>& ranks) const {
    return std::ranges::all_of(know_.front_of(rank),
                               [&](std::size_t call) { return know_.graph.calls[call].awaited == ranks; });
  }

  /// Returns the kind of the group and the operation of the call that holds a rank.
  std::pair<std::string, std::string> way_of_holding(int rank) const {
    if (know_.front_of(rank).empty()) return {};
    const HoldingCall& call = know_.first_call_of(rank);
    const auto recorded = call.recorded_in(know_.job);
    return {know_.job.groups[call.group].description, recorded ? recorded->operation().name : ""};
  }

  const Evidence& know_;
  Suspects& found_;
  bool are_alone_ = false;                            // the suspects of all circles so far are alone in them
  std::optional<Distances> usual_;                    // of the whole job, once a circle has a message
  std::optional<std::vector<OddProgram>> departing_;  // of the whole job, once a circle asks for them
};

}  // namespace

void add_circle_suspects(const Evidence& know, const std::vector<std::vector<std::size_t>>& components,
                         Suspects& suspects) {
  CircleJudge(know, suspects).judge(components);
}

}  // namespace verify
