#pragma once

/// The body of main() for a program of another project, which proves its own layers with an installed
/// shardproof (README.md, "Prove your own layer"):
///
///   int main(int argc, char** argv) {
///     verify::CaseList cases;
///     cases.push_back(std::make_unique<MyCase>());
///     return verify::prove(argc, argv, std::move(cases));
///   }
///
///   PROGRAM [check]      Proves every property of every case, over random worlds and shapes. A failure is
///                        shrunk, explained, and written as a scenario. Options: --case, --property, --dtype,
///                        --runs, --seed, --max-world, --threads, --junit; under mpirun --spread mpi
///                        (check_command.cpp) or --backend mpi (backend_check.h), --deadline.
///                        A case is called on several threads at once, and must not keep anything between
///                        its calls.
///   PROGRAM exam         Plants faults at every call and kernel of the cases, and says which of them the
///                        properties catch (exam.h).
///   PROGRAM --help       Explains the program; after a command, its options, examples and exit codes.
///   PROGRAM replay FILE  Replays the one setting of such a scenario, which may also be given as options.
///
/// All commands take --format text|json. Exit codes are those of output.h.
///
/// Errors  unknown_command: none of check, exam and replay; one_scenario: a scenario for check, or more than
///         one for replay; option_without_effect: an option that the command does not read; those of
///         case_rules.h, case_request.h, settings.h, command_line.h and scenario.h. Refusals are written
///         out, never thrown.

#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/output/output.h"

namespace verify {

/// Runs the program and returns its exit code. The first `own_words` words after the name of the program
/// belong to the caller: they are not read here, but a line that reproduces a failure repeats them.
int prove(int argc, char** argv, const CaseList& cases, int own_words = 0);

/// Does the same, and writes to the given streams. `called` is the program as a line that reproduces a
/// failure calls it.
int prove(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
          const Output& output);

}  // namespace verify
