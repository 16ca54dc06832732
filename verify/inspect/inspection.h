#pragma once

/// What the dumps of a job say: which ranks to look at first, and why.
///
///   const Inspection inspection = inspect(read_recordings(source), {});
///   out << inspection_text(inspection) or one_line(inspection_json(inspection))
///
/// Exact   A verdict says with what the dumps are consistent, never what is. A disagreement about a call
///         comes before everything else if it, or a later call of its group, holds a rank.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "verify/checks/inferred_layout.h"
#include "verify/inspect/disagreements.h"
#include "verify/inspect/early_dumps.h"
#include "verify/inspect/job.h"
#include "verify/inspect/suspects.h"
#include "verify/recordings/recording_reader.h"

namespace verify {

struct Inspection {
  std::string verdict;  // one or two sentences
  std::vector<Suspect> suspects;
  std::optional<JudgedLayout> layout;
  std::vector<InspectionFinding> findings;
  std::vector<std::string> notes;        // on the files
  std::vector<std::string> cannot_tell;  // sentences
  Job job;
  Waiting waiting;
  EarlyDumps early;
  InspectionFinding order;  // of groups; no ranks: none is known to make its groups in another order
  std::optional<Disagreement> leading;  // the disagreement that holds ranks
  std::int64_t sisters = 0;             // other groups that differ as the leading one does
  bool departs = false;      // the suspects of the leading disagreement are told apart by their programs
  bool by_habit = false;     // one of them by what it made before (odd_programs.h)
  bool is_unlisted = false;  // ranks wait in groups whose members are not known
  bool is_late = false;      // the suspect came late to a call, after others had written their dumps
  bool shows_all = false;
  bool has_findings() const { return !suspects.empty() || !findings.empty(); }
  /// Returns the ranks of the suspects, or those of one kind.
  std::vector<int> ranks_of(std::optional<SuspectKind> kind = std::nullopt) const;
};

// verdict.cpp: what is seen of the ranks to look at first, with what it is consistent, where others wait for
// them, the calls and lines of the program, and what makes the verdict doubtful.
//
// The facts are found elsewhere (inspection.h, suspects.h). Of several the first of these is told: that
// nobody is a suspect, a disagreement about a call, groups that were made in another order, a rank that came
// late to a call, and then what `Suspects` has seen.
//
// Lines   The verdict ends with those of the parties of a disagreement, the call that a late rank made
//         before it, or else the last call of the first rank that stands still, the one of a rank that
//         departs from the others, and the call in which others wait for a suspect; without lines where the
//         dumps have no stacks.
// Doubts  Ranks that do not wait for the suspects, or have no pending call either, calls that no recorder
//         has, and ranks without a dump.

/// Returns the verdict on an inspection that has everything but its verdict.
std::string verdict_of(const Inspection& found);

/// Returns sentences about what the dumps cannot tell, whatever the verdict is: what no dump has, what these
/// lack (ranks, earlier calls, states, stacks), and what was not understood of them. Ranks without a dump are
/// told where there are suspects: otherwise the verdict has them.
std::vector<std::string> limits_of(const Inspection& found);

/// Makes the layout of the user for a world of this many ranks; nothing where the user gives none.
using GivenLayout = std::function<std::optional<sim::Layout>(int world_size)>;

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all);

}  // namespace verify
