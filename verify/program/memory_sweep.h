#pragma once

/// The command memory with --sweep: layouts of one job, the best first, as a table, as JSON or as a page.
///
/// Errors  option_without_effect: an option of a sweep without --sweep; missing_option: a world or a global
///         batch that is not given; those of sweep.h, sweep_space.h and machine.h, all at once.

#include "verify/memory/assumed_sizes.h"
#include "verify/program/commands.h"
#include "verify/requests/scenario.h"

namespace verify {

/// Refuses options of a sweep where none is asked for.
void require_no_sweep(const Settings& settings);

/// Runs the sweep that the command line asks for. Returns kFalsified if memory is judged and no layout fits.
int run_memory_sweep(const Call& call, const Scenario& scenario, const AssumedSizes& assumed);

}  // namespace verify
