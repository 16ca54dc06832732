#pragma once

/// The summary of a replay of several scenarios: its verdict, and one line of text.

#include <cstddef>
#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

const char* verdict_name(Verdict verdict);
/// Returns the exit code of the program for a verdict (output.h).
int exit_code(Verdict verdict);

std::size_t count_of(const std::vector<ScenarioReport>& reports, Verdict verdict);

/// Returns the worst verdict: falsified is worse than broken, broken than refused, refused than suspect.
Verdict overall(const std::vector<ScenarioReport>& reports);

/// Returns a line such as "verified: 2 scenarios, 20 checks; 2 verified, 0 falsified, ...".
std::string summary_line(const std::vector<ScenarioReport>& reports);

}  // namespace verify
