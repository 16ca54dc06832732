#pragma once

/// The program `shardproof`: one call with the command line's words, one exit code (output.h). Everything is
/// written to the given streams, so that tests run it in process.
///
/// Errors  missing_command, unknown_command, option_of_groups, and all that the commands refuse: written out, never thrown.

#include <string>
#include <vector>

#include "verify/output.h"

namespace verify {

int run_program(const std::vector<std::string>& arguments, const Output& output);

}  // namespace verify
