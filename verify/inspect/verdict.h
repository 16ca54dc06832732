#pragma once

/// The verdict of an inspection: what is seen of the ranks to look at first, with what it is consistent,
/// where others wait for them, the calls and lines of the program, and what makes it doubtful.
///
///   result.verdict = verdict_of(result);
///
/// The facts are found elsewhere (inspection.h, suspects.h), and what is written here adds none. Of several
/// facts the first of these is told: that nobody is a suspect, a disagreement about a call, groups that were
/// made in another order, a rank that came late to a call, and then what `Suspects` has seen.
///
/// Lines   The verdict ends with those of the parties of a disagreement, the call that a late rank made
///         before it, or else the last call of the first rank that stands still, the one of a rank that
///         departs from the others, and the call in which others wait for a suspect; without lines where the
///         dumps have no stacks.
/// Doubts  Ranks that do not wait for the suspects, or have no pending call either, calls that no recorder
///         has, and ranks without a dump.
/// Exact   A verdict says with what the dumps are consistent, never what is. Its first sentence names the
///         ranks and the call.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/inspect/inspection.h"

namespace verify {

/// Returns a time in whole seconds: "612 s".
std::string seconds_text(std::int64_t nanoseconds);

/// Returns the verdict on an inspection that has everything but its verdict.
std::string verdict_of(const Inspection& found);

/// Returns sentences about what the dumps cannot tell, whatever the verdict is: what no dump has, what these
/// lack (ranks, earlier calls, states, stacks), and what was not understood of them. Ranks without a dump are
/// told where there are suspects: otherwise the verdict has them.
std::vector<std::string> limits_of(const Inspection& found);

/// Returns "2 of 8 ranks have no dump here (ranks 3 and 4): what they did is not known"; "" if all have one.
std::string words_of_missing_dumps(const Job& job);

}  // namespace verify
