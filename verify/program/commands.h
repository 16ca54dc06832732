#pragma once

/// The commands of the program. Each takes what the user said, writes its result, returns an exit code
/// (output.h).
///
///   groups  every process group of a layout
///   layers  which layers live on which pipeline rank and chunk
///   schedule  what each pipeline rank computes, sends and receives, and when
///   shards  where parameters lie in a gradient buffer, and who owns what
///   replay  the main job: proves scenarios, one row a check
///   check   a campaign: cases and properties over random worlds and shapes; a failure is shrunk and written
///           as a scenario
///   list    what there is: scenarios, checks, cases, properties, group kinds
///
/// The JSON that others parse is described in README.md.
///
/// Errors  one_scenario, backend_scenarios, unknown_kind, absent_kind,
///         rank_outside_grid, scenario_missing; and what the layouts and settings refuse. replay keeps the
///         refusals of its scenarios as results.

#include "verify/backends/backend.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/options/command_line.h"
#include "verify/output/output.h"

namespace verify {

/// One call of the program.
struct Call {
  const CommandLine& line;
  const OpenBackend& open_gpu;  // null in a program without GPU backends
  const Output& output;
};

int run_groups(const Call& call);
int run_layers(const Call& call);
int run_schedule(const Call& call);
int run_shards(const Call& call);
int run_replay(const Call& call);
int run_check(const Call& call);
int run_list(const Call& call);
/// The command check, for these cases. `called`: the program that reproduces its failures.
int check_cases(const Call& call, const CaseList& cases, const std::string& called);

}  // namespace verify
