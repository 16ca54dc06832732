#pragma once

/// The commands of the program. Each reads the command line, writes its result, and returns an exit code
/// (output.h).
///
///   groups    shows every process group of a layout
///   layers    shows which layers are on which pipeline rank and chunk
///   schedule  shows what each pipeline rank computes, sends and receives, and when
///   shards    shows where parameters lie in a gradient buffer, and which rank owns which part
///   memory    shows what a rank of every pipeline stage holds, and judges whether it fits
///   replay    proves scenarios, one row per check; this is the main command
///   check     runs a campaign: cases and properties over random worlds and shapes; a failure is shrunk and
///             written as a scenario
///   exam      plants faults in cases, and says which of them the properties catch; or in a program in Python
///   inspect   says which ranks a job that hung waits for, from its flight-recorder dumps
///   run       runs a program in Python as virtual ranks, and says which of them cannot go on
///   compare   holds values that ranks have written into folders against those of another run
///   list      lists scenarios, checks, planted programs, properties, cases and group kinds
///
/// verify/program/README.md describes the JSON output, which other programs may parse.
///
/// Errors  one_scenario: a scenario for a command that takes none, or more than one; backend_scenarios: not
///         exactly one scenario on a backend; unknown_kind: there is no such group kind; absent_kind: the
///         layout has no groups of this kind; rank_outside_grid: a rank that is not in the layout;
///         scenario_missing: there are no scenarios to replay; and what requests, layouts and settings
///         refuse. replay keeps the refusals of its scenarios as results.

#include <string>
#include <vector>

#include "verify/backends/backend.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/output/json.h"
#include "verify/output/output.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

/// One call of the program: its command line, its backends and its output.
struct Call {
  const CommandLine& line;
  const BackendOpeners& backends;  // the backends that the program adds to those of this library
  const Output& output;
  const std::string& called;  // the program as the user called it, for lines that reproduce a result
  Json run_members = {};      // what the JSON of the command says of the run that it is about (run_from.h)
};

int run_groups(const Call& call);
int run_layers(const Call& call);
int run_schedule(const Call& call);
int run_shards(const Call& call);
int run_memory(const Call& call);
int run_replay(const Call& call);
int run_check(const Call& call);
int run_exam(const Call& call);
int run_inspect(const Call& call);
int run_run(const Call& call);
int run_compare(const Call& call);
int run_list(const Call& call);
/// The command check, for these cases.
int check_cases(const Call& call, const CaseList& cases);
/// The command exam, for these cases. `catalogue` has the files of --catalogue if the command line has none.
int exam_cases(const Call& call, const CaseList& cases, const std::vector<std::string>& catalogue);
/// The command exam, for the program after "--".
int exam_program(const Call& call);

}  // namespace verify
