#pragma once

/// The calls, and the lines of the user's program, with which a verdict ends: those of the parties of a
/// disagreement, the call that a late rank made before it, or else the last call of the first rank that
/// stands still, the one of a rank that departs from the others, and the call in which others wait for a
/// suspect.

#include <string>

#include "verify/inspect/inspection.h"
#include "verify/inspect/verdict.h"

namespace verify {

/// Returns " The last call of rank 3 was nccl:all_reduce, call 2 of the default group, made in step
/// (/home/me/train.py:41); ranks 0 to 2 wait in ..."; without lines where the dumps have no stacks, and ""
/// where nobody is a suspect.
std::string words_of_lines(const Inspection& found, const VerdictFacts& facts);

}  // namespace verify
