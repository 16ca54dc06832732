#pragma once

/// Runs commands under mpirun, on machines that have it.

#include <string>

#include "tests/support/run.h"

namespace test {

/// Returns why processes cannot be started here, or "" if they can.
std::string no_processes();

/// Whether mpirun is that of MPICH. It names no job, so tests that run at the same time need a port
/// each. It also waits for a process that hangs when the others leave before they start MPI.
bool is_hydra();

/// Runs a command under mpirun, which may run as root and on fewer cores than processes. Leaks of MPI
/// itself are not reported.
RunResult run_under_mpi(int processes, const std::string& command, int most_seconds = 300);

}  // namespace test
