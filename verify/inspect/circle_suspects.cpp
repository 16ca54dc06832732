#include "verify/inspect/circle_suspects.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/job.h"
#include "verify/inspect/strong_components.h"
#include "verify/inspect/uneven_stages.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

// ---- odd peers
//
// Messages between places of a group that are as far from each other as those of no other message: one that
// is sent to a wrong peer, or received from one. In a pipeline messages go to the next place, to the one
// before, or from one end to the other.
//
// Exact   A distance is usual in groups of one description where a message has ended that went as far, in
//         either direction, or where two ranks have made one. Nothing is odd where no distance is known to
//         be usual, unless the dump of the rank has every call of it.

class UsualDistances {
 public:
  explicit UsualDistances(const Job& job);
  /// Whether a message of a dump goes to, or comes from, an odd place.
  bool is_odd(std::size_t dump, const RecordedCall& call) const;

 private:
  struct Seen {
    std::size_t dump = 0;  // the first that has a message that goes as far
    bool is_usual = false;
  };
  using Key = std::pair<std::string, int>;  // the description of the group, and the distance

  Key key_of(std::size_t dump, const RecordedCall& call) const;

  const Job& job_;
  std::map<Key, Seen> seen_;
};

UsualDistances::UsualDistances(const Job& job) : job_(job) {
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    for (const RecordedCall& call : job.recordings[dump].calls) {
      if (!job.operation(dump, call).is_message()) continue;
      Seen& seen = seen_.try_emplace(key_of(dump, call), Seen{dump, false}).first->second;
      if (call.state == CallState::completed || seen.dump != dump) seen.is_usual = true;
    }
  }
}

UsualDistances::Key UsualDistances::key_of(std::size_t dump, const RecordedCall& call) const {
  const Operation& operation = job_.operation(dump, call);
  return {job_.groups[job_.group_of(dump, call)].description, std::abs(operation.to - operation.from)};
}

bool UsualDistances::is_odd(std::size_t dump, const RecordedCall& call) const {
  const Operation& operation = job_.operation(dump, call);
  if (!operation.is_message() || operation.from < 0 || operation.to < 0) return false;
  const Key key = key_of(dump, call);
  const auto own = seen_.find(key);
  if (own == seen_.end() || own->second.is_usual) return false;
  return job_.recordings[dump].is_whole() || std::ranges::any_of(seen_, [&](const auto& one) {
           return one.first.first == key.first && one.second.is_usual;
         });
}

// ---- circle suspects

class CircleJudge {
 public:
  explicit CircleJudge(const Evidence& know) : know_(know) {}

  CircleSuspects judge(const std::vector<std::vector<std::size_t>>& components) {
    if (add_uneven_stages(components)) return std::move(found_);
    for (const auto& component : components) add_circle(component);
    if (found_.circles.size() != 1) {
      found_.missed.clear();
      found_.facing.clear();
      found_.odd_peer.clear();
    }
    if (found_.departed.size() != found_.ranks.size()) found_.departed.clear();
    if (found_.circles.size() > 1 && found_.departed.empty() && !found_.are_alone) find_facing_stages();
    return std::move(found_);
  }

 private:
  void suspect(int rank, std::string reason) {
    found_.ranks.try_emplace(rank, Suspect{rank, SuspectKind::order, std::move(reason)});
  }

  /// Names the ranks of stages that have another number of microbatches, where these are in circles. Returns
  /// whether there are such stages.
  bool add_uneven_stages(const std::vector<std::vector<std::size_t>>& components) {
    if (components.empty()) return false;
    const std::optional<UnevenStages> uneven = uneven_stages(know_);
    if (!uneven) return false;
    for (const auto& component : components) {
      const bool has_odd = std::ranges::any_of(uneven->ranks, [&](int rank) {
        return std::ranges::find(component, static_cast<std::size_t>(rank)) != component.end();
      });
      if (!has_odd) return false;
      found_.circles.push_back(shortest_circle(know_.graph.edges, component, know_.graph.world));
    }
    found_.uneven = uneven->text;
    for (const int rank : uneven->ranks) suspect(rank, capital(uneven->text) + ".");
    return true;
  }

  /// Returns the ranks of the call that holds the fewest of these; none where several calls hold as few.
  std::vector<int> fewest_in_a_call(const std::vector<int>& ranks) const {
    std::map<std::size_t, std::vector<int>> by_call;
    for (const int rank : ranks)
      by_call[know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))].front()].push_back(rank);
    const auto size_of = [](const auto& one) { return one.second.size(); };
    const auto few = std::ranges::min_element(by_call, {}, size_of);
    const bool is_alone = std::ranges::count(by_call, size_of(*few), size_of) == 1;
    return is_alone && by_call.size() > 1 ? few->second : std::vector<int>();
  }

  void add_circle(const std::vector<std::size_t>& component) {
    const auto world = static_cast<std::size_t>(know_.job.world_size);
    std::vector<int> ranks;
    for (const std::size_t node : component) {
      if (node < world) ranks.push_back(static_cast<int>(node));
    }
    std::ranges::sort(ranks);
    std::vector<int> circle = shortest_circle(know_.graph.edges, component, world);
    if (std::ranges::any_of(circle, [&](int rank) { return know_.may_have_lost(rank); })) return;
    if (add_odd_peer(ranks) || add_missing(component)) {
      found_.circles.push_back(std::move(circle));
      return;
    }
    std::vector<int> alone = odd_ranks_of(component);
    if (alone.empty()) alone = fewest_in_a_call(ranks);
    // A rank that a message holds is no odder than the other end of the message.
    const bool names_alone =
        are_missed(alone, circle, component) &&
        std::ranges::none_of(alone, [&](int rank) { return know_.first_call_of(rank).is_message; });
    if (!names_alone) {
      if (add_departing(ranks)) {
        found_.circles.push_back(std::move(circle));
        return;
      }
      widen(ranks, circle);
      add_other_peers(circle);
    }
    found_.are_alone = names_alone && (found_.circles.empty() || found_.are_alone);
    for (const int rank : names_alone ? alone : circle) {
      const HoldingCall& call = know_.first_call_of(rank);
      suspect(rank, fmt::format("It waits in {} for {}, and {} for it.", call_words(know_.job, call),
                                ranks_words(call.awaited),
                                ranks.size() == 2 ? "that rank waits" : "they wait, by others or directly,"));
    }
    found_.circles.push_back(std::move(circle));
  }

  /// Names the only rank of a circle that is held by a message between odd places, while
  /// another one waits for a message of it. Returns whether there is such a rank.
  bool add_odd_peer(const std::vector<int>& ranks) {
    const HoldingCall* found = nullptr;
    for (const int rank : ranks) {
      const HoldingCall* const own = odd_message_of(rank);
      if (own == nullptr || !is_awaited_in_a_message(rank)) continue;
      if (found != nullptr) return false;
      found = own;
    }
    if (found == nullptr) return false;
    found_.odd_peer = call_words(know_.job, *found);
    suspect(
        found->waiting.front(),
        fmt::format("It waits in {}, and no other rank has a message that goes as far.", found_.odd_peer));
    return true;
  }

  const HoldingCall* odd_message_of(int rank) {
    for (const std::size_t index : know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))]) {
      const HoldingCall& call = know_.graph.calls[index];
      if (!call.is_message || !call.awaits()) continue;
      const RecordedCall& recorded = know_.recording(call.dump).calls[static_cast<std::size_t>(call.call)];
      if (!usual_) usual_.emplace(know_.job);
      if (usual_->is_odd(call.dump, recorded)) return &call;
    }
    return nullptr;
  }

  bool is_awaited_in_a_message(int rank) const {
    return std::ranges::any_of(know_.graph.calls, [&](const HoldingCall& call) {
      return call.is_message && std::ranges::find(call.awaited, rank) != call.awaited.end();
    });
  }

  /// Where each of several circles has ranks of two pipeline stages, says in which calls each stage waits.
  void find_facing_stages() {
    if (!know_.job.has_pipelines()) return;
    std::map<std::ptrdiff_t, std::vector<int>> by_stage;
    for (const auto& [rank, one] : found_.ranks) by_stage[stage_of(rank)].push_back(rank);
    if (by_stage.size() != 2) return;
    const auto has_both = [&](const std::vector<int>& circle) {
      std::set<std::ptrdiff_t> stages;
      for (const int rank : circle)
        if (found_.ranks.contains(rank)) stages.insert(stage_of(rank));
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
    found_.facing = fmt::format("stage {} of the pipeline, where {}, and stage {}, where {}", stage,
                                words_of_party(ranks, ranks.front()), other_stage,
                                words_of_party(others, others.front()));
  }

  std::ptrdiff_t stage_of(int rank) const {
    return know_.job.stage_of(static_cast<std::size_t>(know_.dump_of(rank)));
  }

  /// Adds to a circle of two ranks those that hold each other in the same ways: where a stage or a replica of
  /// the model makes a call of its own, each of its ranks is held by another one of the others.
  void widen(const std::vector<int>& ranks, std::vector<int>& circle) {
    if (circle.size() != 2) return;
    int one = circle[0], other = circle[1];  // `other` waits for fewer ranks
    if (know_.first_call_of(one).awaited.size() < know_.first_call_of(other).awaited.size())
      std::swap(one, other);
    const std::pair way = way_of_holding(one), other_way = way_of_holding(other);
    if (way == other_way) return;
    std::set<int> held_as_one, held_as_other;
    for (const int rank : ranks) {
      const std::pair own = way_of_holding(rank);
      if (own == way) held_as_one.insert(rank);
      if (own == other_way) held_as_other.insert(rank);
    }
    std::set<int> party, others;
    for (const int rank : held_as_other) {
      for (const int facing : know_.first_call_of(rank).awaited) {
        if (!held_as_one.contains(facing) || !waits_for(facing, rank)) continue;
        party.insert(facing);
        others.insert(rank);
      }
    }
    if (party.size() != others.size() || party.size() < 2) return;
    found_.facing = fmt::format("{}, and {}", words_of_party({party.begin(), party.end()}, one),
                                words_of_party({others.begin(), others.end()}, other));
    party.insert(others.begin(), others.end());
    circle.assign(party.begin(), party.end());
  }

  /// Of two ranks that wait for each other, a batch of messages may hold one that waits for other ranks, too,
  /// which wait for it in the same way: then these have left out their halves as likely.
  void add_other_peers(std::vector<int>& circle) const {
    if (circle.size() != 2) return;
    const std::vector<int> ends = circle;
    for (const int rank : ends) {
      for (const std::size_t call : know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))]) {
        if (!know_.graph.calls[call].is_message) continue;
        for (const int peer : know_.graph.calls[call].awaited)
          if (std::ranges::find(circle, peer) == circle.end() && waits_for(peer, rank))
            circle.push_back(peer);
      }
    }
    std::ranges::sort(circle);
  }

  bool waits_for(int rank, int other) const {
    const std::vector<std::size_t>& front = know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))];
    return std::ranges::any_of(front, [&](std::size_t call) {
      const std::vector<int>& awaited = know_.graph.calls[call].awaited;
      return std::ranges::binary_search(awaited, other);
    });
  }

  /// Says in which calls ranks wait that are all held as one of them is.
  std::string words_of_party(const std::vector<int>& party, int example) const {
    const HoldingCall& call = know_.first_call_of(example);
    std::set<std::uint32_t> groups;
    for (const int rank : party) groups.insert(know_.first_call_of(rank).group);
    const auto more = std::ssize(groups) - 1;
    return fmt::format(
        "{} {} in {}{}", ranks_words(party), verb(party, "waits", "wait"), call_words(know_.job, call),
        more == 0 ? "" : fmt::format(", and in {} of this kind", counted(more, "other group")));
  }

  /// Names the ranks of a circle, but not all, that depart from the calls of their pipeline stage. Returns
  /// whether there are such ranks.
  bool add_departing(const std::vector<int>& ranks) {
    if (!departing_) departing_ = odd_programs(know_.job, Elements::left_out);
    std::vector<OddProgram> found;
    for (const OddProgram& one : *departing_)
      if (std::ranges::find(ranks, one.rank) != ranks.end()) found.push_back(one);
    if (found.empty() || found.size() == ranks.size()) return false;
    for (const OddProgram& one : found) {
      suspect(one.rank, departure_words(know_.job, one));
      found_.departed.push_back(one);
    }
    return true;
  }

  /// A collective of a circle to which some members have not come, and in which more wait for them.
  struct Missed {
    std::size_t call = 0;  // index into the calls of the graph
    std::size_t more = 0;  // how many more wait than have not come
  };

  std::vector<Missed> missed_calls(const std::vector<std::size_t>& component) const {
    std::vector<Missed> found;
    for (const std::size_t node : component) {
      if (node < know_.graph.world) continue;
      const HoldingCall& call = know_.graph.calls[node - know_.graph.world];
      const CollectiveId id{call.group, call.sequence};
      const bool is_left_out = !call.is_message && std::ranges::none_of(call.awaited, [&](int rank) {
        return know_.progresses.has_issued(static_cast<std::size_t>(know_.dump_of(rank)), id);
      });
      if (is_left_out && call.waiting.size() > call.awaited.size())
        found.push_back({node - know_.graph.world, call.waiting.size() - call.awaited.size()});
    }
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
          know_.progresses.last_number(static_cast<std::size_t>(know_.dump_of(there)), group, own.is_message);
      if (last >= own.sequence) return false;
      has_others = has_others || last >= 0;
    }
    return has_others;
  }

  /// Names the ranks of a circle that are missed by most members of collectives; of several such ranks, those
  /// that wait themselves for most members of a collective. Returns whether they are told apart.
  bool add_missing(const std::vector<std::size_t>& component) {
    const std::vector<Missed> calls = missed_calls(component);
    std::set<int> missing, smaller;
    for (const Missed& one : calls) {
      for (const int rank : know_.graph.calls[one.call].awaited) {
        missing.insert(rank);
        if (is_in_smaller_part(rank)) smaller.insert(rank);
      }
    }
    if (!smaller.empty()) missing = smaller;
    const auto are_all_missing = [&](const Missed& one) {
      return std::ranges::all_of(know_.graph.calls[one.call].awaited,
                                 [&](int rank) { return missing.contains(rank); });
    };
    const Missed* most = nullptr;
    for (const Missed& one : calls) {
      if (are_all_missing(one) && (most == nullptr || one.more > most->more)) most = &one;
    }
    if (most == nullptr) return false;
    const HoldingCall& call = know_.graph.calls[most->call];
    const auto is_odd = [&](int rank) { return is_in_smaller_part(rank) || is_ahead_of_alike(rank); };
    if (smaller.empty() && call.awaited.size() < missing.size()) return false;
    if (!std::ranges::all_of(call.awaited, is_odd)) return false;
    name_missed(calls, *most, is_odd);
    return true;
  }

  /// Names the ranks of a call that are missed by most, and those of the calls of its kind that are missed
  /// alike.
  template <typename IsOdd>
  void name_missed(const std::vector<Missed>& calls, const Missed& most, const IsOdd& is_odd) {
    const HoldingCall& call = know_.graph.calls[most.call];
    std::vector<int> named;
    std::int64_t groups = 0;
    for (const Missed& one : calls) {
      const HoldingCall& other = know_.graph.calls[one.call];
      if (&one != &most && !is_missed_alike(other, call, is_odd)) continue;
      ++groups;
      named.insert(named.end(), other.awaited.begin(), other.awaited.end());
      for (const int rank : other.awaited) suspect_missing(rank, other);
    }
    const HoldingCall& first = know_.first_call_of(call.awaited.front());
    found_.missed = fmt::format(
        "{}, in which {} {},{} and {} in {}", call_words(know_.job, call), ranks_words(call.waiting),
        call.waiting.size() == 1 ? "waits" : "wait",
        groups == 1 ? ""
                    : fmt::format(" nor to those of {} of this kind,", counted(groups - 1, "other group")),
        named.size() == 1 ? "waits" : "wait", call_words(know_.job, first));
  }

  void suspect_missing(int rank, const HoldingCall& call) {
    const HoldingCall& own = know_.first_call_of(rank);
    suspect(rank,
            fmt::format("It has not come to {}, in which {} wait for it, and waits itself in {} for {}.",
                        call_words(know_.job, call), ranks_words(call.waiting), call_words(know_.job, own),
                        ranks_words(own.awaited)));
  }

  /// Whether the ranks that a call of another group misses are held by the same call as those that one of the
  /// kind misses, as where all ranks of a replica of the model save a checkpoint.
  template <typename IsOdd>
  bool is_missed_alike(const HoldingCall& one, const HoldingCall& call, const IsOdd& is_odd) const {
    const HoldingCall* const holding = &know_.first_call_of(call.awaited.front());
    return one.group != call.group && one.awaited.size() == call.awaited.size() &&
           know_.job.groups[one.group].description == know_.job.groups[call.group].description &&
           std::ranges::all_of(
               one.awaited, [&](int rank) { return is_odd(rank) && &know_.first_call_of(rank) == holding; });
  }

  /// Whether ranks are of a circle and are missed in a collective of their component, and no other
  /// rank is missed in one by most of its members.
  bool are_missed(const std::vector<int>& ranks, const std::vector<int>& circle,
                  const std::vector<std::size_t>& component) const {
    const auto has = [](const std::vector<int>& some, int rank) {
      return std::ranges::find(some, rank) != some.end();
    };
    if (std::ranges::none_of(ranks, [&](int rank) { return has(circle, rank); })) return false;
    bool is_missed = false;
    for (const std::size_t node : component) {
      if (node < know_.graph.world) continue;
      const HoldingCall& call = know_.graph.calls[node - know_.graph.world];
      if (call.is_message) continue;
      const auto is_among = [&](int rank) { return has(ranks, rank); };
      if (std::ranges::all_of(call.awaited, is_among)) {
        is_missed = true;
      } else if (2 * call.awaited.size() < know_.job.groups[call.group].members.size() &&
                 std::ranges::none_of(call.awaited, is_among)) {
        return false;
      }
    }
    return is_missed;
  }

  /// Returns the ranks that wait alone in the only collective of a circle whose other members, the larger
  /// part, are all held in one way; none where there is no such call.
  std::vector<int> odd_ranks_of(const std::vector<std::size_t>& component) const {
    std::vector<int> odd;
    for (const std::size_t node : component) {
      if (node < know_.graph.world) continue;
      const HoldingCall& call = know_.graph.calls[node - know_.graph.world];
      if (call.is_message || 2 * call.waiting.size() >= know_.job.groups[call.group].members.size()) continue;
      std::set<std::pair<std::string, std::string>> held;  // by the kinds of the groups and the operations
      for (const int rank : call.awaited) {
        if (!waits_only_for(rank, call.waiting)) held.insert(way_of_holding(rank));
      }
      if (held.size() > 1 || call.awaited.size() < 2) continue;
      if (!odd.empty()) return {};
      odd = call.waiting;
    }
    return odd;
  }

  bool waits_only_for(int rank, const std::vector<int>& ranks) const {
    const std::vector<std::size_t>& front = know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))];
    return std::ranges::all_of(front,
                               [&](std::size_t call) { return know_.graph.calls[call].awaited == ranks; });
  }

  std::pair<std::string, std::string> way_of_holding(int rank) const {
    const auto dump = static_cast<std::size_t>(know_.dump_of(rank));
    if (know_.graph.fronts[dump].empty()) return {};
    const HoldingCall& call = know_.graph.calls[know_.graph.fronts[dump].front()];
    const std::vector<RecordedCall>& calls = know_.recording(call.dump).calls;
    return {
        know_.job.groups[call.group].description,
        call.call < 0 ? "" : know_.job.operation(call.dump, calls[static_cast<std::size_t>(call.call)]).name};
  }

  const Evidence& know_;
  CircleSuspects found_;
  std::optional<UsualDistances> usual_;               // of the whole job, once a circle has a message
  std::optional<std::vector<OddProgram>> departing_;  // of the whole job, once a circle asks for them
};

}  // namespace

CircleSuspects circle_suspects(const Evidence& know,
                               const std::vector<std::vector<std::size_t>>& components) {
  return CircleJudge(know).judge(components);
}

}  // namespace verify
