#pragma once

/// What the dumps of a job say: which ranks to look at first, and why.
///
///   const Inspection inspection = inspect(read_recordings(source), {}, false);
///   out << inspection_text(inspection) or one_line(inspection_json(inspection))
///
/// Shapes  The report has three lines: where to look first, why, and what to type next. `verdict` has the
///         second one, with what it is consistent, what makes it doubtful, and the lines of the program.
/// Exact   A verdict says with what the dumps are consistent, never what is.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "verify/checks/inferred_layout.h"
#include "verify/inspect/edits.h"
#include "verify/recordings/recording_reader.h"

namespace verify {

/// Who waits for whom, and how the wait spreads.
struct Waiting {
  std::vector<HoldingCall> calls;    // nearest to a suspect first
  std::vector<std::string> through;  // kinds or descriptions of the groups by which the wait spreads
  std::int64_t waiting_ranks = 0;    // that wait for a suspect, by other ranks or directly
  std::vector<int> idle;             // ranks with a whole dump and without a pending call
  std::vector<int> held;             // ranks with a pending call
  std::vector<int> lost;             // ranks whose ring may have lost a pending call
};

/// Returns the call that holds a rank, one that waits for others if there is one; null where none holds it.
const HoldingCall* find_call_of(const Waiting& waiting, int rank);

/// Returns the call that a rank made last, where it is suspected because it made no other one.
std::optional<JobCall> last_call_of(const Job& job, const Suspect& suspect);

/// clear   No other edits that are as few make the calls match, and nothing that may be missing changes this.
/// likely  These are the fewest edits; but another cause, which the verdict tells, leaves the same dumps.
/// open    Other edits are as few, or the dumps do not tell who is wrong.
enum class Confidence : std::uint8_t { clear, likely, open };
const char* confidence_name(Confidence confidence);

struct Report {
  std::string first, why, next;  // a sentence each
  std::string rest;              // what follows the three lines
  Confidence confidence = Confidence::open;
};

struct Inspection {
  Report report;
  std::string verdict;            // why, and what follows
  std::vector<Suspect> suspects;  // ascending
  Explanation explanation;
  std::optional<JudgedLayout> layout;
  std::vector<InspectionFinding> findings;
  std::vector<std::string> notes;        // on the files
  std::vector<std::string> cannot_tell;  // sentences
  Job job;
  Waiting waiting;
  Snapshots snapshots;
  std::vector<Disagreement> disagreements;
  std::vector<InspectionFinding> contradictions;
  InspectionFinding order;   // of groups; no ranks: none is known to make its groups in another order
  bool is_unlisted = false;  // ranks wait in groups whose members are not known
  bool shows_all = false;
  bool has_findings() const { return !suspects.empty() || !findings.empty(); }
  /// Returns the ranks of the suspects, or those of one kind.
  std::vector<int> ranks_of(std::optional<SuspectKind> kind = std::nullopt) const;
};

// report.cpp: all sentences about who is wrong. What of an explanation is said first, why, what to do, with
// what it is consistent, what makes it doubtful, and the calls and lines of the program.

/// Writes the reasons of the suspects, and returns the report on an inspection that has all but this.
Report report_of(Inspection& found);

// limits.cpp: sentences about what the dumps cannot tell, whatever the verdict is: what no dump has, what
// these lack (ranks, earlier calls, states, stacks), and what was not understood of them. Ranks that have no
// dump are reported if there are suspects: otherwise the report has them.
std::vector<std::string> limits_of(const Inspection& found);

/// Returns "2 of 8 ranks have no dump here (ranks 3 and 4): what they did is not known"; "" if all have one.
std::string words_of_missing_dumps(const Job& job);

/// Returns what the dumps say of the groups, or of each other, that cannot be: members, rank, world, version.
std::vector<InspectionFinding> contradictions_of(const Job& job);

/// Makes the layout of the user for a world of this many ranks; nothing where the user gives none.
using GivenLayout = std::function<std::optional<sim::Layout>(int world_size)>;

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all);

}  // namespace verify
