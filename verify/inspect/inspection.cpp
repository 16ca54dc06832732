#include "verify/inspect/inspection.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The groups whose members are known, in the form in which they are held against a layout.
GroupDump groups_of(const Job& job) {
  GroupDump groups{.form = DumpForm::flight_recorder};
  for (const JobGroup& group : job.groups) {
    if (!group.has_known_members) continue;
    if (group.description == "default_pg")
      groups.world_size = std::max<std::int64_t>(groups.world_size.value_or(0), std::ssize(group.members));
    else
      groups.groups.push_back({group.description == "undefined" ? "" : group.description, group.members});
  }
  return groups;
}

constexpr std::size_t kMostOfAKind = 20;  // findings of waiting calls, unless all are asked for

/// Collects the suspects and the findings.
class Inspector {
 public:
  Inspector(Recordings recordings, const GivenLayout& given, bool all) {
    result_.shows_all = all;
    result_.notes = std::move(recordings.notes);
    result_.job = job_of(std::move(recordings));
    std::optional<sim::Layout> layout = given ? given(job_.world_size) : std::nullopt;
    if (layout) {
      result_.layout = judged_layout(groups_of(job_), *std::move(layout));
    } else {
      result_.layout = inferred_layout(groups_of(job_), job_.world_size);
    }
  }

  Inspection run() {
    std::optional<Progresses> progresses(std::in_place, job_);
    disagreements_ = disagreements_of(job_, *progresses, all_);
    result_.early = early_dumps_of(job_, *progresses);
    if (!result_.early.ranks.empty()) {
      mark_early_dumps(result_.early, result_.job);
      progresses.emplace(job_);
    }
    result_.waiting = waiting_of(job_, *progresses);
    for (const auto& [rank, one] : suspects_.ranks) result_.suspects.push_back(one);
    add_late();
    add_disagreements();
    add_group_order();
    add_waits();
    add_circles_and_stuck_calls();
    add_contradictions();
    judge_layout();
    if (result_.suspects.empty()) add_lost();
    if (result_.suspects.empty()) add_unlisted();
    result_.verdict = verdict_of(result_);
    result_.cannot_tell = limits_of(result_);
    return std::move(result_);
  }

 private:
  void find(std::string what, std::string text, std::vector<int> ranks) {
    result_.findings.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  /// The rank that came late to a call in which the others waited, where nobody else is a suspect.
  void add_late() {
    const EarlyDumps& early = result_.early;
    if (early.late_ns == 0 || !result_.suspects.empty()) return;
    result_.suspects.push_back({early.last, SuspectKind::host,
                                sentence("why_late", {{"seconds", early.late_ns / kSecond},
                                                      {"ranks", early.last_call.waiting},
                                                      {"call", call_words(job_, early.last_call)}})});
    result_.is_late = true;
  }

  void add_disagreements() {
    Suspects odd;
    const auto add = [&](const Disagreement& one) {
      for (const int rank : one.odd_ranks()) odd.add(rank, SuspectKind::order, disagreement_words(job_, one));
    };
    for (const Disagreement& one : disagreements_) {
      find(one.what, disagreement_words(job_, one), one.odd_ranks());
      // Splits count only where nothing is known but calls to which all of their members have come.
      const bool counts = one.what != "splits" || suspects_.are_stuck() || suspects_.running > 0;
      if (one.holds_ranks && counts && !result_.leading) result_.leading = one;
    }
    if (!result_.leading) return;
    add(*result_.leading);
    for (const Disagreement& one : disagreements_) {
      if (!one.holds_ranks || !are_sisters(one, *result_.leading)) continue;
      ++result_.sisters;
      add(one);
    }
    if (!result_.leading->has_majority()) tell_parties_apart(odd);
    result_.suspects.clear();
    for (auto& [rank, suspect] : odd.ranks) result_.suspects.push_back(std::move(suspect));
  }

  /// Whether two groups of one kind differ in one call in one way, as where all ranks of a replica of the
  /// model make a call that the others do not make: then the ranks of all these groups are named. Groups of
  /// other stages may be at another call.
  bool are_sisters(const Disagreement& one, const Disagreement& other) const {
    const auto calls_of = [](const Disagreement& of) {
      std::vector<std::string> calls;
      for (const Disagreement::Party& party : of.parties) calls.push_back(party.call);
      if (!of.has_majority()) std::ranges::sort(calls);
      return calls;
    };
    return one.group != other.group &&
           job_.groups[one.group].description == job_.groups[other.group].description &&
           one.what == other.what && one.is_message == other.is_message &&
           one.has_majority() == other.has_majority() && calls_of(one) == calls_of(other);
  }

  /// Where no party is the smaller one, the ranks are named that depart from the calls of their pipeline
  /// stages.
  void tell_parties_apart(Suspects& odd) {
    std::map<int, Suspect> departing;
    for (const OddProgram& one : odd_programs(job_, Elements::compared)) {
      const auto known = odd.ranks.find(one.rank);
      if (known == odd.ranks.end()) continue;
      departing.insert(*known);
      result_.by_habit = result_.by_habit || one.by_habit;
    }
    if (departing.empty() || departing.size() == odd.ranks.size()) return;
    odd.ranks = std::move(departing);
    result_.departs = true;
  }

  /// Members of groups that are never formed wait for each other, whatever else they seem to do.
  void add_group_order() {
    const InspectionFinding& order = result_.order = odd_group_order_of(job_);
    if (order.ranks.empty()) return;
    result_.findings.push_back(order);
    if (result_.leading) return;
    result_.suspects.clear();
    for (const int rank : order.ranks)
      result_.suspects.push_back({rank, SuspectKind::order, sentence("why_order")});
  }

  void add_waits() {
    std::set<std::pair<std::uint32_t, bool>> seen;  // groups, of which only the first call is told
    std::size_t told = 0;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits()) continue;
      if (!all_ && (told == kMostOfAKind || !seen.insert({call.group, call.is_message}).second)) continue;
      ++told;
      const bool is_absent = call.awaited.empty();
      find(call.is_message ? "message"
           : is_absent     ? "absent"
                           : "waiting",
           sentence("found_wait", {{"waiting", call.waiting},
                                   {"call", call_words(job_, call)},
                                   {"ranks", call.targets()},
                                   {"absent", is_absent ? sentence("found_wait_absent") : ""}}),
           call.targets());
    }
  }

  void add_circles_and_stuck_calls() {
    for (const std::vector<int>& circle : suspects_.circles)
      find("circle", sentence("found_circle", {{"ranks", circle}}), circle);
    if (!suspects_.are_stuck() && suspects_.running == 0) return;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits() && call.waiting.size() > 1 && !is_disagreed_about(call))
        find("stuck", stuck_words(job_, call), call.waiting);
    }
  }

  /// Whether the members of a call made different ones under its number.
  bool is_disagreed_about(const HoldingCall& call) const {
    return std::ranges::any_of(disagreements_, [&](const Disagreement& one) {
      return !one.is_message && !call.is_message && one.group == call.group && one.sequence == call.sequence;
    });
  }

  void add_contradictions() {
    result_.findings.insert(result_.findings.end(), job_.contradictions.begin(), job_.contradictions.end());
    for (const BlankDump& blank : job_.blank)
      find("truncated", sentence("found_blank", {{"rank", blank.rank}, {"blank", verify::words_of(blank)}}),
           {blank.rank});
    for (const Recording& recording : job_.recordings) {
      if (recording.is_truncated)
        find("truncated", sentence("found_truncated", {{"rank", recording.rank}}), {recording.rank});
    }
  }

  /// Where nothing else explains why ranks wait, the calls that hold them may be those that are lost.
  void add_lost() {
    const std::vector<int>& lost = result_.waiting.lost;
    if (!lost.empty()) find("lost", sentence("found_lost", {{"ranks", lost}}), lost);
  }

  /// Where nothing else explains why ranks wait, members that no dump lists may keep them waiting.
  void add_unlisted() {
    std::set<int> held;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (job_.groups[call.group].may_lack_members) held.insert(call.waiting.begin(), call.waiting.end());
    }
    if (held.empty()) return;
    const std::vector<int> ranks(held.begin(), held.end());
    result_.is_unlisted = true;
    find("unlisted", sentence("found_unlisted", {{"ranks", ranks}}), ranks);
  }

  void judge_layout() {
    if (!result_.layout) return;
    const GroupComparison& comparison = result_.layout->comparison;
    if (!comparison.world.empty()) find("layout", capital(comparison.world) + ".", {});
    std::size_t told = 0;
    for (const GroupDifference& difference : comparison.differences) {
      if (difference.what == GroupDifference::What::missing) continue;  // groups that were not used
      if (!all_ && ++told > kMostOfAKind) break;
      const std::string& explanation = difference.explanation;
      find("layout",
           sentence("found_group", {{"ranks", ranks_text(difference.ranks)},
                                    {"description", sim::printable_text(difference.description)},
                                    {"layout", result_.layout->is_inferred ? "inferred" : "given"},
                                    {"explanation", explanation.empty() ? "" : ": " + explanation}}),
           difference.ranks);
    }
  }

  Inspection result_;
  const Job& job_ = result_.job;
  const Suspects& suspects_ = result_.waiting.suspects;
  const bool& all_ = result_.shows_all;
  std::vector<Disagreement> disagreements_;
};

}  // namespace

std::vector<int> Inspection::ranks_of(std::optional<SuspectKind> kind) const {
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects)
    if (!kind || suspect.kind == *kind) ranks.push_back(suspect.rank);
  return ranks;
}

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all) {
  return Inspector(std::move(recordings), given, shows_all).run();
}

}  // namespace verify
