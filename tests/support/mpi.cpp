#include "tests/support/mpi.h"

namespace test {

std::string no_processes() {
  if (std::string(SHARDPROOF_MPIRUN).empty()) return "no MPI here, or no mpirun";
  if (std::string(SHARDPROOF_SANITIZERS).find("thread") != std::string::npos)
    return "MPI itself is not built for the thread sanitizer";
  return "";
}

RunResult run_under_mpi(int processes, const std::string& command) {
  const std::string environment =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
      "OMPI_MCA_mpi_yield_when_idle=1 ASAN_OPTIONS=detect_leaks=0";
  return run_process(environment + " timeout 300 '" + SHARDPROOF_MPIRUN + "' -n " +
                     std::to_string(processes) + " " + command);
}

}  // namespace test
