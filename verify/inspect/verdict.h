#pragma once

/// The verdict of an inspection: what is seen of the ranks to look at first, with what it is consistent,
/// where others wait for them, the lines of the program (program_lines.h), and what makes it doubtful.
///
///   result.verdict = verdict_of(result, facts);
///
/// The facts are found elsewhere (inspection.h, suspects.h), and what is written here adds none. Of several
/// facts the first of these is told: that nobody is a suspect, a disagreement about a call, groups that were
/// made in another order, a rank that came late to a call, and then what `Suspects` has: calls that
/// do not end, calls that are counted alone, ranks that are ahead, messages that were not received, and the
/// suspects by their kinds.
///
/// Exact   A verdict says with what the dumps are consistent, never what is. Its first sentence names the
///         ranks and the call.

#include <cstdint>
#include <string>

#include "verify/inspect/disagreements.h"
#include "verify/inspect/early_dumps.h"
#include "verify/inspect/group_order.h"
#include "verify/inspect/inspection.h"

namespace verify {

/// What an inspection has found, beside the suspects and the findings.
struct VerdictFacts {
  const Disagreement* leading = nullptr;  // the disagreement that holds ranks; null: there is none
  std::int64_t sisters = 0;               // other groups that differ as the leading one does
  bool departs = false;      // the suspects of the leading disagreement are told apart by their programs
  bool by_habit = false;     // one of them by what it made before (odd_programs.h)
  bool is_unlisted = false;  // ranks wait in groups whose members are not known
  bool is_late = false;      // the suspect came late to a call, after others had written their dumps
  OddGroupOrder order;
  EarlyDumps early;
};

/// Returns a time in whole seconds: "612 s".
std::string seconds_text(std::int64_t nanoseconds);

/// Returns the verdict on an inspection that has everything but its verdict.
std::string verdict_of(const Inspection& found, const VerdictFacts& facts);

}  // namespace verify
