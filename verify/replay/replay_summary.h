#pragma once

/// What a replay of several scenarios came to, in a word and in a line.

#include <cstddef>
#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

const char* verdict_name(Verdict verdict);
/// Of the program (output.h).
int exit_code(Verdict verdict);

std::size_t count_of(const std::vector<ScenarioReport>& reports, Verdict verdict);

/// The worst: falsified before broken before refused.
Verdict overall(const std::vector<ScenarioReport>& reports);

/// "verified: 2 scenarios, 20 checks; 2 verified, 0 falsified, ..."
std::string summary_line(const std::vector<ScenarioReport>& reports);

}  // namespace verify
