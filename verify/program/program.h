#pragma once

/// The program `shardproof`: one call with the command line's words, one exit code (output.h). Everything is
/// written to the given streams, so that tests run it in process.
///
/// Errors  missing_command, unknown_command, and all that the commands refuse: written out,
///         never thrown.

#include <functional>
#include <string>
#include <vector>

#include "verify/backends/backend.h"
#include "verify/output/output.h"

namespace verify {

/// The exit code of the work: what it refuses, or could not write, is written out.
int exit_code_of(const std::vector<std::string>& arguments, const Output& output,
                 const std::function<int()>& work);

/// `open_gpu`: of the backends that compute on GPUs; null: there are none.
int run_program(const std::vector<std::string>& arguments, const Output& output,
                const OpenBackend& open_gpu = nullptr);

}  // namespace verify
