#include "verify/inspect/inspection.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The groups whose members are known, in the form in which they are compared with a layout.
GroupDump groups_of(const Job& job) {
  GroupDump groups{.form = DumpForm::flight_recorder};
  for (const JobGroup& group : job.groups) {
    if (!group.has_known_members) continue;
    if (group.is_default())
      groups.world_size = std::max<std::int64_t>(groups.world_size.value_or(0), std::ssize(group.members));
    else
      groups.groups.push_back({group.description == "undefined" ? "" : group.description, group.members});
  }
  return groups;
}

// ---- how the wait spreads

std::string short_name_of(const JobGroup& group) {
  if (!group.kind.empty()) return group.kind;
  if (group.is_default()) return "the default group";
  return fmt::format("group '{}'", sim::printable_text(group.name.substr(0, 40)));
}

/// Returns "tp and pp"; of many names the first ones, and how many others there are.
std::string words_of_groups(const std::set<std::string>& names) {
  constexpr std::ptrdiff_t kMostNames = 3;
  const std::ptrdiff_t more = std::ssize(names) <= kMostNames ? 0 : std::ssize(names) - kMostNames + 1;
  const auto end = std::next(names.begin(), std::ssize(names) - more);
  return fmt::format("{}{}", fmt::join(names.begin(), end, " and "),
                     more == 0 ? "" : fmt::format(" and {} other groups", more));
}

/// Finds how far from a suspect every call is, and by which kinds of groups the wait spreads.
void spread(const Job& job, WaitGraph& graph, std::vector<int> next, Waiting& waiting) {
  const std::vector<std::vector<std::size_t>> callers = graph.callers();
  std::set<std::string> named;
  std::vector<bool> reached(static_cast<std::size_t>(job.world_size));
  for (const int rank : next) reached[static_cast<std::size_t>(rank)] = true;
  for (int distance = 1; !next.empty(); ++distance) {
    std::vector<int> ranks;
    std::set<std::string> names;
    for (const int rank : next) {
      for (const std::size_t index : callers[static_cast<std::size_t>(rank)]) {
        HoldingCall& call = graph.calls[index];
        if (call.distance >= 0) continue;
        call.distance = distance;
        const std::size_t before = ranks.size();
        std::ranges::copy_if(call.waiting, std::back_inserter(ranks),
                             [&](int other) { return !reached[static_cast<std::size_t>(other)]; });
        for (const int other : call.waiting) reached[static_cast<std::size_t>(other)] = true;
        if (ranks.size() > before) names.insert(short_name_of(job.groups[call.group]));
      }
    }
    waiting.waiting_ranks += std::ssize(ranks);
    std::erase_if(names, [&](const std::string& name) { return !named.insert(name).second; });
    if (!names.empty()) waiting.through.push_back(words_of_groups(names));
    std::ranges::sort(ranks);
    next = std::move(ranks);
  }
}

Waiting waiting_of(const Job& job, const Progresses& progresses, WaitGraph graph,
                   const Explanation& explanation) {
  Waiting waiting;
  spread(job, graph, explanation.all(), waiting);
  std::ranges::stable_sort(graph.calls, {}, [](const HoldingCall& call) {
    return std::tuple(call.distance < 0, call.distance, call.waiting.front());
  });
  waiting.calls = std::move(graph.calls);
  for (const std::size_t dump : job.dumps()) {
    const PendingCalls& pending = progresses.of(dump);
    const int rank = job.rank_of(dump);
    if (pending.any()) waiting.held.push_back(rank);
    if (progresses.is_idle(dump)) waiting.idle.push_back(rank);
    if (progresses.may_have_lost(dump) || !pending.lost.empty()) waiting.lost.push_back(rank);
  }
  return waiting;
}

constexpr std::size_t kMostOfAKind = 20;  // findings of waiting calls, unless all are asked for

/// Collects the explanation and the findings.
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
    explain();
    for (const auto& [rank, one] : result_.explanation.ranks) result_.suspects.push_back(one);
    add_disagreements();
    if (!result_.order.ranks.empty()) result_.findings.push_back(result_.order);
    add_waits();
    add_circles_and_stuck_calls();
    add_contradictions();
    judge_layout();
    if (result_.suspects.empty()) add_lost_and_unlisted();
    result_.report = report_of(result_);
    result_.verdict = result_.report.why + result_.report.rest;
    result_.cannot_tell = limits_of(result_);
    return std::move(result_);
  }

 private:
  void find(std::string what, std::string text, std::vector<int> ranks) {
    result_.findings.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  void explain() {
    const Progresses progresses(job_);
    result_.disagreements = disagreements_of(job_, progresses, result_.shows_all);
    result_.order = odd_group_order_of(job_);
    WaitGraph graph;
    // Only where nobody stands still may an all_to_all that others have completed tell of a device.
    for (const AllToAlls all_to_alls : {AllToAlls::left_out, AllToAlls::taken}) {
      result_.snapshots = snapshots_of(job_, progresses, all_to_alls);
      graph = wait_graph_of(job_, progresses, result_.snapshots.lags);
      result_.explanation =
          explained({job_, progresses, result_.snapshots, graph, result_.disagreements, result_.order});
      const EditKind kind = result_.explanation.kind;
      if (kind != EditKind::none && kind < EditKind::unmet) break;
    }
    result_.waiting = waiting_of(job_, progresses, std::move(graph), result_.explanation);
  }

  void add_disagreements() {
    for (const Disagreement& one : result_.disagreements)
      find(one.what, disagreement_words(job_, one), one.odd_ranks());
  }

  void add_waits() {
    std::set<std::pair<std::uint32_t, bool>> seen;  // groups, of which only the first call is reported
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
    const Explanation& found = result_.explanation;
    for (const std::vector<int>& circle : found.circles)
      find("circle", sentence("found_circle", {{"ranks", circle}}), circle);
    const bool are_stuck = found.kind == EditKind::unended || found.kind == EditKind::unbegun ||
                           found.kind == EditKind::relined || found.kind == EditKind::unmet;
    if (!are_stuck && found.running == 0) return;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits() && call.waiting.size() > 1 && !is_disagreed_about(call))
        find("stuck", stuck_words(job_, call), call.waiting);
    }
  }

  /// Whether the members of a call made different ones under its number.
  bool is_disagreed_about(const HoldingCall& call) const {
    return std::ranges::any_of(result_.disagreements, [&](const Disagreement& one) {
      return !one.is_message && !call.is_message && one.group == call.group && one.sequence == call.sequence;
    });
  }

  void add_contradictions() {
    result_.contradictions = contradictions_of(job_);
    std::ranges::copy(result_.contradictions, std::back_inserter(result_.findings));
    for (const BlankDump& blank : job_.blank)
      find("truncated", sentence("found_blank", {{"rank", blank.rank}, {"blank", verify::words_of(blank)}}),
           {blank.rank});
    for (const Recording& recording : job_.recordings) {
      if (recording.is_truncated)
        find("truncated", sentence("found_truncated", {{"rank", recording.rank}}), {recording.rank});
    }
  }

  /// If nothing else explains why ranks wait, the calls that hold them may be those that are lost, and
  /// members that no dump lists may keep them waiting.
  void add_lost_and_unlisted() {
    const std::vector<int>& lost = result_.waiting.lost;
    if (!lost.empty()) find("lost", sentence("found_lost", {{"ranks", lost}}), lost);
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
  const bool& all_ = result_.shows_all;
};

}  // namespace

std::vector<int> Inspection::ranks_of(std::optional<SuspectKind> kind) const {
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects)
    if (!kind || suspect.kind == *kind) ranks.push_back(suspect.rank);
  return ranks;
}

std::optional<JobCall> last_call_of(const Job& job, const Suspect& suspect) {
  const Recording* const own = job.find_recording(suspect.rank);
  if (suspect.kind != SuspectKind::host || own == nullptr || own->calls.empty()) return std::nullopt;
  return job.call_at(*job.dump_of(suspect.rank), own->calls.size() - 1);
}

const HoldingCall* find_call_of(const Waiting& waiting, int rank) {
  const HoldingCall* found = nullptr;
  for (const HoldingCall& call : waiting.calls) {
    if (!std::ranges::binary_search(call.waiting, rank)) continue;
    if (call.awaits()) return &call;
    if (found == nullptr) found = &call;
  }
  return found;
}

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all) {
  return Inspector(std::move(recordings), given, shows_all).run();
}

}  // namespace verify
