#pragma once

/// Asks for all that the count of memory needs and cannot take from what a run says (assumed_sizes.h): one
/// refusal with one line that answers it.
///
/// Errors  missing_option: sizes of the model that are not given; run_unresolved: values of a script that
///         nobody knows without executing it, with the sizes that are missing beside them.

#include "verify/vocabulary/command_line.h"

namespace verify {

void require_answers(const CommandLine& line);

}  // namespace verify
