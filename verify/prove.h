#pragma once

/// The main() of a program that proves layers of its own, with an installed shardproof (README.md, "Prove
/// your own layer"):
///
///   int main(int argc, char** argv) {
///     verify::CaseList cases;
///     cases.push_back(std::make_unique<MyCase>());
///     return verify::prove(argc, argv, std::move(cases));
///   }
///
///   PROGRAM [check]      every property of every case, over random worlds and shapes; a failure is shrunk,
///   explained, and
///                        written as a scenario. Options: --case, --property, --dtype, --runs, --seed,
///                        --max-world; --backend mpi under mpirun (backend_check.h), --deadline,
///                        --mpi-reductions
///   PROGRAM replay FILE  the one setting of such a scenario; or the same as options
///
/// Both take --format text|json. Exit codes are those of output.h.
///
/// Errors  unknown_command, one_scenario, option_without_effect; those of case_request.h, settings.h,
///         command_line.h and scenario.h: written out, never thrown.

#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/output/output.h"

namespace verify {

/// The first `own_words` after the program's name are the caller's: not read here, and repeated by a line
/// that reproduces.
int prove(int argc, char** argv, const CaseList& cases, int own_words = 0);

/// The same, written to the given streams; `called` is how a line that reproduces calls the program.
int prove(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
          const Output& output);

}  // namespace verify
