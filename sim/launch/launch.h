#pragma once

/// Who this process is in its world, and where its world meets: what the launcher told it, a pure function of
/// the values that were given explicitly and of an environment.
///
///   const Launch launch = detect_launch({}, environment_of_process());
///   std::cerr << text_of(launch);
///
/// Calls   the first that is there decides: explicit values; torchrun, and whatever else sets RANK and
///         WORLD_SIZE; Open MPI; MPICH and Intel MPI (PMI); MVAPICH2; a task of a Slurm step (srun, with or
///         without an MPI plugin). With none of them, the process is a world of its own. A Slurm allocation
///         in which no srun started this process is no launcher: its SLURM_NTASKS counts processes that do
///         not exist. The address is --master-addr, or MASTER_ADDR, or Slurm's first node of the step, or
///         this machine where all ranks are on it. The port is --master-port, or MASTER_PORT (one above it
///         where torchrun's agent listens there itself), or one from the numbers of the Slurm job and step or
///         from Open MPI's name of the job, or kDefaultPort: MPICH and Intel MPI do not name their jobs, so
///         two of them at once on one node need a --master-port each.
/// Errors  all or nothing: launch_partly_set (a rank without a size, MPI without an address across nodes),
///         launch_number (no whole number), launch_range (rank >= world size, local rank >= local size, a
///         port that is none), launch_address, launch_contradiction (RANK and an MPI or Slurm rank beside it
///         that differ, or two MPIs that do), host_list.
/// Source  the manuals of torchrun, mpirun (Open MPI), Hydra, Intel MPI, MVAPICH2, srun.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sim {

using Environment = std::map<std::string, std::string>;

/// Of this process, as it stands now.
Environment environment_of_process();

/// What the command line says. A rank and a world size leave no question to a launcher; an address or a port
/// alone goes with one.
struct ExplicitLaunch {
  std::optional<std::string> rank;              // --rank
  std::optional<std::string> world_size;        // --world-size
  std::optional<std::string> local_rank;        // --local-rank
  std::optional<std::string> local_world_size;  // --local-world-size
  std::optional<std::string> master_addr;       // --master-addr
  std::optional<std::string> master_port;       // --master-port
};

inline constexpr int kDefaultPort = 29511;  // below those that the system hands out itself

/// This process among those of its node.
struct LocalPlace {
  int rank = 0;
  int world_size = 1;
  bool operator==(const LocalPlace&) const = default;
};

struct Launch {
  std::string
      // "explicit", "torchrun", "RANK and WORLD_SIZE", "Open MPI", "MPICH or Intel MPI", "MVAPICH2",
      // "Slurm", "none"
      launcher;
  int rank = 0;
  int world_size = 1;
  std::optional<LocalPlace> local;  // absent where the launcher does not tell: the rendezvous counts by host
  std::string master_addr;          // of a world of one: this machine
  int master_port = kDefaultPort;
  std::vector<std::string>
      read;  // options and variables that the above stands on, in the order they were read
  bool operator==(const Launch&) const = default;
};

Launch detect_launch(const ExplicitLaunch& given, const Environment& environment);

/// One line.
std::string text_of(const Launch& launch);

}  // namespace sim
