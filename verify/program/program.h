#pragma once

/// The program `shardproof`. One call takes the words of the command line and returns an exit code
/// (output.h). Everything is written to the given streams, so that tests can run the program in process.
///
/// Errors  missing_command: no command is given; unknown_command: there is no such command; and what the
///         commands refuse. Refusals are written out, never thrown.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/backends/backend.h"
#include "verify/output/json.h"
#include "verify/output/output.h"
#include "verify/program/version.h"

namespace verify {

/// Adds members to the JSON document of a refusal.
using AddMembers = std::function<void(Json& document)>;

/// Does `work` and returns its exit code. Refusals and failed writes are written out, and give an exit code
/// of their own. `program` is the name with which its messages begin.
int exit_code_of(const std::string& program, const std::vector<std::string>& arguments, const Output& output,
                 const std::function<int()>& work, const AddMembers& add_members = {});

/// Runs the program. `backends` are the backends that the program adds to those of this library; `build` is
/// what --version says of the program beside its version. `called` is the program as a shell takes it, for
/// the lines that reproduce a result.
int run_program(const std::vector<std::string>& arguments, const Output& output,
                const BackendOpeners& backends = {}, const std::optional<Build>& build = std::nullopt,
                const std::string& called = "./shardproof");

}  // namespace verify
