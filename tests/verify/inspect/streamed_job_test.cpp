// Proves that an inspection names the ranks in which a fault was planted, and no others, where hosts run far
// ahead of their devices (streamed_job.h): a host or a device that stopped, a rank or its dump that is gone,
// a call that is left out, made twice, or made in another way. Dumps are partial in all ways that are drawn.

#include "tests/verify/inspect/streamed_job.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/recordings/examined_run.h"
#include "verify/inspect/inspection.h"

namespace {

using test::StreamedHang;
using test::StreamedJob;
using test::StreamedStep;
using verify::Inspection;
using verify::SuspectKind;

using Ranks = test::RankSet;

Inspection inspection_of(const std::vector<verify::RankDump>& dumps, int cut_rank = -1,
                         std::size_t cut_size = 0) {
  return verify::inspect(test::read_dumps(dumps, cut_rank, cut_size), {}, false);
}

Ranks named(const Inspection& inspection) { return test::suspects_of(inspection); }

bool are_of_kind(const Inspection& inspection, SuspectKind kind) {
  return std::all_of(inspection.suspects.begin(), inspection.suspects.end(),
                     [&](const auto& suspect) { return suspect.kind == kind; });
}

bool cannot_be_told(const Inspection& inspection) {
  return inspection.verdict.starts_with("The dumps do not show");
}

std::string told(const Inspection& inspection) {
  std::string text = inspection.verdict;
  for (const auto& suspect : inspection.suspects)
    text += fmt::format("\n  {}: {}", suspect.rank, suspect.reason);
  for (const auto& finding : inspection.findings) text += "\n  " + finding.text;
  return text;
}

/// A training of 2 to 32 ranks.
StreamedJob drawn_job() {
  test::TrainingSizes sizes;
  sizes.tp = *rc::gen::element(1, 2, 4);
  sizes.dp = *rc::gen::element(1, 2, 4);
  sizes.pp = *rc::gen::element(1, 2, 3, 4);
  RC_PRE(sizes.ranks() > 1 && sizes.ranks() <= 32);
  sizes.ep = *rc::gen::element(1, sizes.tp * sizes.dp);
  sizes.microbatches = *rc::gen::inRange(1, 5);
  sizes.steps = *rc::gen::inRange(1, 3);
  const bool is_eager = *rc::gen::arbitrary<bool>();
  StreamedJob job =
      test::streamed_training(sizes, !is_eager || *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
  job.has_eager_sends = is_eager;
  return job;
}

test::DumpedView drawn_view() {
  test::DumpedView view;
  view.has_timing = *rc::gen::arbitrary<bool>();
  view.is_active_only = *rc::gen::arbitrary<bool>();
  // A ring that keeps the active calls alone is never shorter than they are.
  if (!view.is_active_only && *rc::gen::inRange(0, 3) == 2) view.most_calls = *rc::gen::inRange(8, 40);
  return view;
}

int drawn_rank(const StreamedJob& job) { return *rc::gen::inRange(0, static_cast<int>(job.programs.size())); }

int drawn_step(const StreamedJob& job, int rank) {
  return *rc::gen::inRange(0, static_cast<int>(job.programs[static_cast<std::size_t>(rank)].size()));
}

bool is_message(const StreamedStep& step) { return step.operation.find(' ') != std::string::npos; }
bool is_collective(const StreamedStep& step) { return !step.operation.empty() && !is_message(step); }

/// Draws one of the steps that fit.
template <typename Fits>
int drawn_step(const StreamedJob& job, int rank, const Fits& fits) {
  const std::vector<StreamedStep>& program = job.programs[static_cast<std::size_t>(rank)];
  std::vector<int> fitting;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (fits(program[i])) fitting.push_back(static_cast<int>(i));
  }
  RC_PRE(!fitting.empty());
  return *rc::gen::elementOf(fitting);
}

bool is_missed(const StreamedHang& hang, int rank) { return hang.is_missed[static_cast<std::size_t>(rank)]; }

RC_GTEST_PROP(InspectionOfStreams, AJobWithoutAFaultEndsAndNothingIsFound, ()) {
  const StreamedJob job = drawn_job();
  const StreamedHang hang = test::hang_of(job);
  RC_ASSERT(hang.all_ended);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  if (inspection.has_findings()) RC_FAIL(told(inspection));
}

RC_GTEST_PROP(InspectionOfStreams, AHostThatStoppedIsNamed, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  job.host_stops_at[static_cast<std::size_t>(rank)] = drawn_step(job, rank);
  const StreamedHang hang = test::hang_of(job);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  const Ranks expected = is_missed(hang, rank) ? Ranks{rank} : Ranks{};
  if (named(inspection) != expected || !are_of_kind(inspection, SuspectKind::host))
    RC_FAIL(fmt::format("{} of {}: {}", rank, job.programs.size(), told(inspection)));
}

RC_GTEST_PROP(InspectionOfStreams, OfSeveralHostsThatStoppedNoOtherIsNamed, ()) {
  StreamedJob job = drawn_job();
  Ranks stopped;
  for (int i = 0; i < 2; ++i) {
    const int rank = drawn_rank(job);
    job.host_stops_at[static_cast<std::size_t>(rank)] = drawn_step(job, rank);
    stopped.insert(rank);
  }
  const StreamedHang hang = test::hang_of(job);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  const Ranks found = named(inspection);
  // Fewer ranks that wait than stopped look one call ahead of them (edits_of_calls.cpp): dumps cannot tell.
  RC_PRE(inspection.explanation.kind != verify::EditKind::extra || found.size() >= stopped.size());
  const bool is_any_missed =
      std::any_of(stopped.begin(), stopped.end(), [&](int rank) { return is_missed(hang, rank); });
  if (found.empty() == is_any_missed ||
      !std::includes(stopped.begin(), stopped.end(), found.begin(), found.end()))
    RC_FAIL(fmt::format("{} of {}: {}", fmt::join(stopped, ","), job.programs.size(), told(inspection)));
}

RC_GTEST_PROP(InspectionOfStreams, ARankWithoutADumpIsNamedWhereOthersWaitForIt, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  job.host_stops_at[static_cast<std::size_t>(rank)] = drawn_step(job, rank);
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(is_missed(hang, rank));
  std::vector<verify::RankDump> dumps = test::dumps_of(job, hang, drawn_view());
  dumps.erase(dumps.begin() + rank);
  const Inspection inspection = inspection_of(dumps);
  if (named(inspection) != Ranks{rank} || !are_of_kind(inspection, SuspectKind::absent))
    RC_FAIL(fmt::format("{} of {}: {}", rank, job.programs.size(), told(inspection)));
}

/// The dump of a rank that is not at fault is gone.
RC_GTEST_PROP(InspectionOfStreams, AHostThatStoppedIsNamedAloneWhereAnotherDumpIsGone, ()) {
  StreamedJob job = drawn_job();
  RC_PRE(job.programs.size() > 2U);
  const int rank = drawn_rank(job), gone = drawn_rank(job);
  RC_PRE(rank != gone);
  job.host_stops_at[static_cast<std::size_t>(rank)] = drawn_step(job, rank);
  const StreamedHang hang = test::hang_of(job);
  std::vector<verify::RankDump> dumps = test::dumps_of(job, hang, drawn_view());
  dumps.erase(dumps.begin() + gone);
  const Inspection inspection = inspection_of(dumps);
  const Ranks found = named(inspection);
  const bool is_right = found == Ranks{rank} || found == Ranks{gone} || found.empty();
  const std::vector<int>& unknown = inspection.explanation.unknown;
  RC_ASSERT(unknown.empty() || unknown == std::vector<int>{gone});
  RC_ASSERT(unknown.empty() || inspection.verdict.find("no whole dump") != std::string::npos);
  if (!is_right || (is_missed(hang, rank) && found.empty()))
    RC_FAIL(fmt::format("{} without {} of {}: {}", rank, gone, job.programs.size(), told(inspection)));
}

/// The dump of a rank that is not at fault ends in the middle, as if its process was killed while it wrote.
RC_GTEST_PROP(InspectionOfStreams, AHostThatStoppedIsNamedWhereAnotherDumpIsCut, ()) {
  StreamedJob job = drawn_job();
  RC_PRE(job.programs.size() > 2U);
  const int rank = drawn_rank(job), cut = drawn_rank(job);
  RC_PRE(rank != cut);
  job.host_stops_at[static_cast<std::size_t>(rank)] = drawn_step(job, rank);
  const StreamedHang hang = test::hang_of(job);
  test::DumpedView view = drawn_view();
  view.most_calls = 1'000'000;
  const auto size = static_cast<std::size_t>(*rc::gen::inRange(0, 12'000));
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, view), cut, size);
  const Ranks found = named(inspection);
  const bool is_right = found == Ranks{rank} || found.empty() ||
                        (found == Ranks{cut} && are_of_kind(inspection, SuspectKind::absent));
  if (!is_right || (is_missed(hang, rank) && found.empty()))
    RC_FAIL(
        fmt::format("{} of {}, {} cut at {}: {}", rank, job.programs.size(), cut, size, told(inspection)));
}

/// A device whose calls end no more, and whose last calls were not seen to end.
RC_GTEST_PROP(InspectionOfStreams, ADeviceThatStoppedIsNamed, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  const auto index = static_cast<std::size_t>(rank);
  job.device_stops_at[index] = drawn_step(job, rank);
  const int silent = *rc::gen::inRange(0, 12);
  job.device_is_silent_from[index] = std::max(0, job.device_stops_at[index] - silent);
  const StreamedHang hang = test::hang_of(job);
  bool hides = false;  // a collective of several ranks
  for (std::size_t i = 0; i < hang.issued[index].size(); ++i) {
    const StreamedStep& step = job.programs[index][hang.issued[index][i]];
    const bool is_hidden = !hang.is_ended[index][i] && hang.is_begun[index][i] &&
                           static_cast<int>(i) < job.device_stops_at[index];
    hides = hides || (is_hidden && is_collective(step) && job.groups[step.group].ranks.size() > 1);
  }
  RC_PRE(hides);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  // A dump that is older looks the same, unless four ranks or more tell, and all others wait for the device.
  bool do_all_wait = job.programs.size() >= 4;
  for (std::size_t other = 0; other < hang.is_ended.size(); ++other)
    do_all_wait = do_all_wait && (other == index || std::ranges::count(hang.is_ended[other], false) > 0);
  if (!do_all_wait && named(inspection).empty()) return;
  // A ring that lost calls that may be pending may have lost what the device waits for.
  const bool has_lost = inspection.verdict.find("have overwritten calls") != std::string::npos;
  if (has_lost && named(inspection).empty() && cannot_be_told(inspection)) return;
  if (named(inspection) != Ranks{rank} || !are_of_kind(inspection, SuspectKind::device))
    RC_FAIL(fmt::format("{} of {}: {}", rank, job.programs.size(), told(inspection)));
}

/// A device that stopped, and of which everything is seen that it did: its own calls say no more than those
/// of the ranks that wait with it.
RC_GTEST_PROP(InspectionOfStreams, ADeviceThatStoppedIsAmongTheRanksOfAStuckCall, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  const auto index = static_cast<std::size_t>(rank);
  job.device_stops_at[index] = drawn_step(job, rank);
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(!hang.all_ended);
  test::DumpedView view = drawn_view();
  if (job.has_eager_sends) view = {.has_timing = view.has_timing};  // else sends that ended are not seen
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, view));
  const Ranks found = named(inspection);
  const bool cannot_tell = found.empty() && cannot_be_told(inspection);
  if (!found.contains(rank) && !cannot_tell)
    RC_FAIL(fmt::format("{} of {}: {}", rank, job.programs.size(), told(inspection)));
}

enum class Mistake { size, dtype, operation, left_out, made_twice };

/// Two collectives of different groups, one right after the other, in crossed order on one rank.
RC_GTEST_PROP(InspectionOfStreams, ARankThatCrossesTwoCallsIsInTheCircle, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  auto& program = job.programs[static_cast<std::size_t>(rank)];
  const int at = drawn_step(job, rank);
  RC_PRE(at + 1 < std::ssize(program));
  const auto first = program.begin() + at, second = first + 1;
  RC_PRE(first->group != second->group && is_collective(*first) && is_collective(*second));
  std::iter_swap(first, second);
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(!hang.all_ended);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  const Ranks found = named(inspection);
  const bool is_right = found.contains(rank) && are_of_kind(inspection, SuspectKind::order);
  if (!is_right && !(found.empty() && cannot_be_told(inspection)))
    RC_FAIL(fmt::format("{} of {} at {}: {}", rank, job.programs.size(), at, told(inspection)));
}

/// A sum over all stages that every rank of one stage leaves out, as behind a condition on the stage: each
/// sum is in a circle of its own, of a rank of the stage and a neighbour that waits in the sum.
RC_GTEST_PROP(InspectionOfStreams, AStageThatLeavesOutASumIsInEveryCircle, ()) {
  test::TrainingSizes sizes;
  sizes.tp = *rc::gen::element(1, 2, 4);
  sizes.dp = *rc::gen::element(1, 2);
  sizes.pp = *rc::gen::element(3, 4);
  sizes.microbatches = *rc::gen::inRange(1, 5);
  sizes.steps = 2;
  StreamedJob job = test::streamed_training(sizes, true, false);
  const int size = sizes.tp * sizes.dp, stage = *rc::gen::inRange(0, sizes.pp);
  Ranks of_stage;
  for (int rank = stage * size; rank < (stage + 1) * size; ++rank) {
    auto& program = job.programs[static_cast<std::size_t>(rank)];
    program.erase(std::ranges::find_if(program, [&](const StreamedStep& step) {
      return job.groups[step.group].description == "MODEL_PARALLEL_GROUP";
    }));
    of_stage.insert(rank);
  }
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(!hang.all_ended);
  test::DumpedView view = drawn_view();
  view.most_calls = test::DumpedView().most_calls;
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, view));
  const Ranks found = named(inspection);
  bool is_right =
      are_of_kind(inspection, SuspectKind::order) && std::ssize(inspection.explanation.circles) == sizes.dp;
  for (const std::vector<int>& circle : inspection.explanation.circles)
    is_right = is_right && std::ranges::any_of(circle, [&](int rank) { return of_stage.contains(rank); });
  const bool depart = inspection.explanation.kind == verify::EditKind::departed;
  if (!is_right || (depart && !std::ranges::includes(of_stage, found)))
    RC_FAIL(fmt::format("stage {} of {} ranks: {}", stage, size, told(inspection)));
}

/// A message that one rank does not send or receive.
RC_GTEST_PROP(InspectionOfStreams, AMessageWithoutItsOtherHalfIsNamed, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  auto& program = job.programs[static_cast<std::size_t>(rank)];
  const int at = drawn_step(job, rank, [](const StreamedStep& step) { return is_message(step); });
  const std::string operation = program[static_cast<std::size_t>(at)].operation;
  program.erase(program.begin() + at);
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(!hang.all_ended);
  const test::DumpedView view = drawn_view();
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, view));
  const Ranks found = named(inspection);
  // A ring may have lost the message itself, of which no status tells.
  const bool is_lost = view.most_calls != test::DumpedView().most_calls && !inspection.has_findings();
  if (!found.contains(rank) && !(found.empty() && (is_lost || cannot_be_told(inspection))))
    RC_FAIL(
        fmt::format("{} of {} at {}, {}: {}", rank, job.programs.size(), at, operation, told(inspection)));
}

/// A rank that makes a collective of three or more ranks differently, leaves it out or makes it twice.
RC_GTEST_PROP(InspectionOfStreams, ARankThatMakesAnotherCallIsNamed, ()) {
  StreamedJob job = drawn_job();
  const int rank = drawn_rank(job);
  auto& program = job.programs[static_cast<std::size_t>(rank)];
  const int at = drawn_step(job, rank, [&](const StreamedStep& step) {
    return is_collective(step) && job.groups[step.group].ranks.size() > 1;
  });
  StreamedStep& step = program[static_cast<std::size_t>(at)];
  const std::size_t members = job.groups[step.group].ranks.size();
  const auto mistake = *rc::gen::element(Mistake::size, Mistake::dtype, Mistake::operation, Mistake::left_out,
                                         Mistake::made_twice);
  const test::StreamedGroup& of_step = job.groups[step.group];
  const Ranks group(of_step.ranks.begin(), of_step.ranks.end());
  if (mistake == Mistake::size) {
    RC_PRE(step.operation != "all_to_all");
    step.elements += 8;
  } else if (mistake == Mistake::dtype) {
    step.dtype = "Double";
  } else if (mistake == Mistake::operation) {
    step.operation = "reduce";
  } else if (mistake == Mistake::left_out) {
    program.erase(program.begin() + at);
  } else {
    const StreamedStep again = step;
    program.insert(program.begin() + at, again);
  }
  const StreamedHang hang = test::hang_of(job);
  RC_PRE(!hang.all_ended);
  const Inspection inspection = inspection_of(test::dumps_of(job, hang, drawn_view()));
  const Ranks found = named(inspection);
  const bool is_exact = found == Ranks{rank} || found == group;
  RC_CLASSIFY(is_exact, "named exactly");
  RC_CLASSIFY(found.empty(), "cannot be told");
  // Where the others have ended their programs, they look like hosts that stopped.
  Ranks others = group;
  others.erase(rank);
  const bool have_ended = mistake == Mistake::made_twice && found == others;
  const bool is_in_circle = found.contains(rank) && are_of_kind(inspection, SuspectKind::order);
  const bool cannot_tell = found.empty() && cannot_be_told(inspection);
  if (!is_exact && !is_in_circle && !cannot_tell && !have_ended)
    RC_FAIL(fmt::format("mistake {} of rank {} of {} in {} ({} ranks), step {}: {}",
                        static_cast<int>(mistake), rank, job.programs.size(), of_step.description, members,
                        at, told(inspection)));
}

}  // namespace
