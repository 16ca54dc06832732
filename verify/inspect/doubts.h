#pragma once

/// What makes a verdict doubtful that names ranks by their kinds (suspects.h): ranks that do not wait for the
/// suspects, or have no pending call either, calls that no recorder has, and ranks without a dump.

#include <string>
#include <vector>

#include "verify/inspect/inspection.h"
#include "verify/inspect/verdict.h"

namespace verify {

/// Returns " But 4 other ranks with pending calls do not wait for it: ..."; "" where nothing is doubtful.
std::string words_of_doubts(const Inspection& found, const VerdictFacts& facts);

/// Returns the ranks of the suspects of one kind.
std::vector<int> ranks_of_kind(const std::vector<Suspect>& suspects, SuspectKind kind);

}  // namespace verify
