#pragma once

/// Commands under mpirun, where there is one.

#include <string>

#include "tests/support/run.h"

namespace test {

/// Why there are no processes here; empty: there are.
std::string no_processes();

/// MPICH's mpirun. It names no job, so tests at the same time need a port each; and it waits for a process
/// that hangs where the others leave before they start MPI.
bool is_hydra();

/// As root, on any number of cores, and with MPI's own leaks left out.
RunResult run_under_mpi(int processes, const std::string& command, int most_seconds = 300);

}  // namespace test
