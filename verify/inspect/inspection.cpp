#include "verify/inspect/inspection.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/early_dumps.h"
#include "verify/inspect/group_order.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/limits.h"
#include "verify/inspect/verdict.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::size_t kMostOfAKind = 20;  // findings of waiting calls, unless all are asked for

/// Collects the suspects and the findings.
class Inspector {
 public:
  Inspector(Recordings recordings, const GivenLayout& given, bool all) : all_(all) {
    result_.shows_all = all;
    result_.notes = std::move(recordings.notes);
    result_.job = job_of(std::move(recordings));
    if (given) {
      if (std::optional<sim::Layout> layout = given(result_.job.world_size))
        result_.layout = judged_layout(result_.job, *std::move(layout));
    }
    if (!result_.layout) result_.layout = inferred_layout(result_.job);
  }

  Inspection run() {
    std::optional<Progresses> progresses(std::in_place, result_.job);
    disagreements_ = disagreements_of(result_.job, *progresses, all_);
    facts_.early = early_dumps_of(result_.job, *progresses);
    if (!facts_.early.ranks.empty()) {
      mark_early_dumps(facts_.early, result_.job);
      progresses.emplace(result_.job);
    }
    result_.waiting = waiting_of(result_.job, *progresses);
    result_.suspects = result_.waiting.suspects.ranks;
    add_late();
    add_disagreements();
    add_group_order();
    add_waits();
    add_contradictions();
    judge_layout();
    add_lost();
    add_unlisted();
    result_.verdict = verdict_of(result_, facts_);
    result_.cannot_tell = limits_of(job(), facts_.early, result_.suspects);
    return std::move(result_);
  }

 private:
  const Job& job() const { return result_.job; }
  void find(std::string what, std::string text, std::vector<int> ranks) {
    result_.findings.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  /// The rank that came late to a call in which the others waited, where nobody else is a suspect.
  void add_late() {
    const EarlyDumps& early = facts_.early;
    if (early.late_ns == 0 || !result_.suspects.empty()) return;
    result_.suspects.push_back(
        {early.last, SuspectKind::host,
         fmt::format("It came {} after {} to {}.", seconds_text(early.late_ns),
                     ranks_words(early.last_call.waiting), call_words(job(), early.last_call))});
    facts_.is_late = true;
  }

  void add_disagreements() {
    std::map<int, Suspect> odd;
    for (const Disagreement& one : disagreements_) {
      const std::string words = disagreement_words(job(), one);
      find(one.what, words, one.odd_ranks());
      if (!one.holds_ranks || facts_.leading != nullptr) continue;
      if (one.what == "splits" && !is_in_calls_of_all()) continue;
      facts_.leading = &one;
      for (const int rank : one.odd_ranks()) odd[rank] = {rank, SuspectKind::order, words};
    }
    if (facts_.leading == nullptr) return;
    add_sisters(odd);
    tell_parties_apart(odd);
    result_.suspects.clear();
    for (auto& [rank, suspect] : odd) result_.suspects.push_back(std::move(suspect));
  }

  /// Whether nothing is known but calls to which all of their members have come.
  bool is_in_calls_of_all() const {
    return result_.waiting.suspects.is_stuck || result_.waiting.suspects.running > 0;
  }

  /// Groups of one kind may differ in one call in one way, as where all ranks of a replica of the model make
  /// a call that the others do not make: then the ranks of all these groups are named.
  void add_sisters(std::map<int, Suspect>& odd) {
    for (const Disagreement& one : disagreements_) {
      if (&one == facts_.leading || !one.holds_ranks || !are_sisters(one, *facts_.leading)) continue;
      ++facts_.sisters;
      for (const int rank : one.odd_ranks())
        odd.try_emplace(rank, Suspect{rank, SuspectKind::order, disagreement_words(job(), one)});
    }
  }

  /// Whether two groups of one kind differ in one way. Groups of other stages may be at another call.
  bool are_sisters(const Disagreement& one, const Disagreement& other) const {
    const JobGroup& group = job().groups[one.group];
    const auto calls_of = [](const Disagreement& of) {
      std::vector<std::string> calls;
      for (const Disagreement::Party& party : of.parties) calls.push_back(party.call);
      if (!of.has_majority()) std::ranges::sort(calls);
      return calls;
    };
    return one.group != other.group && group.description == job().groups[other.group].description &&
           one.what == other.what && one.is_message == other.is_message &&
           one.has_majority() == other.has_majority() && calls_of(one) == calls_of(other);
  }

  /// Where no party is the smaller one, the ranks are named that depart from the calls of their pipeline
  /// stages.
  void tell_parties_apart(std::map<int, Suspect>& odd) {
    if (facts_.leading->has_majority()) return;
    std::map<int, Suspect> departing;
    for (const OddProgram& one : odd_programs(job(), Elements::compared)) {
      const auto known = odd.find(one.rank);
      if (known == odd.end()) continue;
      departing.insert(*known);
      facts_.by_habit = facts_.by_habit || one.by_habit;
    }
    if (departing.empty() || departing.size() == odd.size()) return;
    odd = std::move(departing);
    facts_.departs = true;
  }

  /// Members of groups that are never formed wait for each other, whatever else they seem to do.
  void add_group_order() {
    facts_.order = odd_group_order_of(job());
    if (facts_.order.ranks.empty()) return;
    find("groups", capital(facts_.order.text), facts_.order.ranks);
    if (facts_.leading != nullptr) return;
    result_.suspects.clear();
    for (const int rank : facts_.order.ranks)
      result_.suspects.push_back({rank, SuspectKind::order, "It has made groups in another order."});
  }

  void add_waits() {
    std::set<std::pair<std::uint32_t, bool>> seen;  // groups, of which only the first call is told
    std::size_t told = 0;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits()) continue;
      if (!all_ && (told == kMostOfAKind || !seen.insert({call.group, call.is_message}).second)) continue;
      ++told;
      add_wait(call);
    }
    for (const std::vector<int>& circle : result_.waiting.suspects.circles)
      find("circle", fmt::format("{} wait for each other in a circle.", capital(ranks_words(circle))),
           circle);
    if (!result_.waiting.suspects.is_stuck && result_.waiting.suspects.running == 0) return;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits() && call.waiting.size() > 1 && !is_disagreed_about(call))
        find("stuck", stuck_words(job(), call), call.waiting);
    }
  }

  /// Whether the members of a call made different ones under its number.
  bool is_disagreed_about(const HoldingCall& call) const {
    return std::ranges::any_of(disagreements_, [&](const Disagreement& one) {
      return !one.is_message && !call.is_message && one.group == call.group && one.sequence == call.sequence;
    });
  }

  void add_wait(const HoldingCall& call) {
    const std::vector<int>& awaited = call.targets();
    const std::string waiting =
        capital(ranks_words(call.waiting)) + (call.waiting.size() == 1 ? " waits" : " wait");
    find(call.is_message        ? "message"
         : call.awaited.empty() ? "absent"
                                : "waiting",
         fmt::format("{} in {} for {}{}.", waiting, call_words(job(), call), ranks_words(awaited),
                     call.awaited.empty() ? ", of whom no dump tells" : ""),
         awaited);
  }

  void add_contradictions() {
    for (const Contradiction& one : job().contradictions) find(one.what, one.text, one.ranks);
    for (const BlankDump& blank : job().blank)
      find("truncated",
           fmt::format("The dump of rank {} {}, so nothing is known of this rank.", blank.rank,
                       verify::words_of(blank)),
           {blank.rank});
    for (const Recording& recording : job().recordings) {
      if (recording.is_truncated)
        find("truncated", fmt::format("The dump of rank {} ends in the middle.", recording.rank),
             {recording.rank});
    }
  }

  /// Where nothing else explains why ranks wait, the calls that hold them may be those that are lost.
  void add_lost() {
    const std::vector<int>& lost = result_.waiting.lost;
    if (!result_.suspects.empty() || lost.empty()) return;
    find("lost",
         fmt::format("The rings of {} have overwritten calls that may be pending, and these may hold the "
                     "ranks. A larger ring (TORCH_FR_BUFFER_SIZE) keeps them.",
                     ranks_words(lost)),
         lost);
  }

  /// Where nothing else explains why ranks wait, members that no dump lists may keep them waiting.
  void add_unlisted() {
    if (!result_.suspects.empty()) return;
    std::set<int> held;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (job().groups[call.group].may_lack_members) held.insert(call.waiting.begin(), call.waiting.end());
    }
    if (held.empty()) return;
    const std::vector<int> ranks(held.begin(), held.end());
    facts_.is_unlisted = true;
    find("unlisted",
         fmt::format("{} {} in calls whose groups the dumps do not list (\"pg_config\"), and these may have "
                     "other members.",
                     capital(ranks_words(ranks)), verb(ranks, "waits", "wait")),
         ranks);
  }

  void judge_layout() {
    if (!result_.layout) return;
    const GroupComparison& comparison = result_.layout->comparison;
    if (!comparison.world.empty()) find("layout", capital(comparison.world) + ".", {});
    std::size_t told = 0;
    for (const GroupDifference& difference : comparison.differences) {
      if (difference.what == GroupDifference::What::missing) continue;  // groups that were not used
      if (!all_ && ++told > kMostOfAKind) break;
      find("layout",
           fmt::format("Group {} of {} is not a group of the {} layout{}{}.", ranks_text(difference.ranks),
                       sim::printable_text(difference.description),
                       result_.layout->is_inferred ? "inferred" : "given",
                       difference.explanation.empty() ? "" : ": ", difference.explanation),
           difference.ranks);
    }
  }

  Inspection result_;
  bool all_;
  std::vector<Disagreement> disagreements_;
  VerdictFacts facts_;
};

}  // namespace

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all) {
  return Inspector(std::move(recordings), given, shows_all).run();
}

}  // namespace verify
