#pragma once

/// The lines of the user's program with which a verdict ends: where the parties of a disagreement make their
/// calls, or else where the first rank that stands still made its last call, where one that departs from the
/// others made its own, and where others wait for a suspect.

#include <string>

#include "verify/inspect/inspection.h"
#include "verify/inspect/verdict.h"

namespace verify {

/// Returns " Rank 3 made its last call in step (/home/me/train.py:41); ranks 0 to 2 wait in ..."; "" where
/// the dumps have no stacks, or nobody is a suspect.
std::string words_of_lines(const Inspection& found, const VerdictFacts& facts);

}  // namespace verify
