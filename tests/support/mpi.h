#pragma once

/// Commands under mpirun, where there is one.

#include <string>

#include "tests/support/run.h"

namespace test {

/// Why there are no processes here; empty: there are.
std::string no_processes();

/// As root, on any number of cores, with MPI's own leaks left out, and not for ever.
RunResult run_under_mpi(int processes, const std::string& command);

}  // namespace test
