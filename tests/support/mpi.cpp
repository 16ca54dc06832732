#include "tests/support/mpi.h"

#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace test {

std::string no_processes() {
  if (std::string(SHARDPROOF_MPIRUN).empty()) return "no MPI here, or no mpirun";
  if (std::string(SHARDPROOF_SANITIZERS).find("thread") != std::string::npos)
    return "MPI itself is not built for the thread sanitizer";
  return "";
}

bool is_hydra() {
  static const bool is =
      run_process(std::string("'") + SHARDPROOF_MPIRUN + "' --version").out.find("HYDRA") !=
      std::string::npos;
  return is;
}

RunResult run_under_mpi(int processes, const std::string& command, int most_seconds) {
  constexpr int kFirst = 20'000;
  constexpr int kPorts = 10'000;
  const std::string environment =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
      "OMPI_MCA_mpi_yield_when_idle=1 ASAN_OPTIONS=detect_leaks=0";
  // Two runs that share a folder for their sockets fail where one removes it while the other begins.
  const TemporaryFolder sockets("-mpi");
  std::filesystem::create_directories(sockets.path());
  const std::string port =
      is_hydra() ? "MASTER_PORT=" + std::to_string(kFirst + getpid() % kPorts) + " " : "";
  return run_process(port + environment + " TMPDIR='" + sockets.path() + "' timeout --kill-after=10 " +
                     std::to_string(most_seconds) + " '" + SHARDPROOF_MPIRUN + "' -n " +
                     std::to_string(processes) + " " + command);
}

}  // namespace test
