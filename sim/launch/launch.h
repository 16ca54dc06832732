#pragma once

/// Finds the rank of this process, the size of its world, and the address at which the world meets. The
/// result is a pure function of the explicit values and of the environment, in which the launcher sets its
/// variables.
///
///   const Launch launch = detect_launch({}, environment_of_process());
///   std::cerr << text_of(launch);
///
/// Calls   the first of these sources that is present decides: explicit values; torchrun, and anything else
///         that sets RANK and WORLD_SIZE; Open MPI; MPICH and Intel MPI (PMI); MVAPICH2; a task of a Slurm
///         step (srun, with or without an MPI plugin). If none is present, the process is a world of size
///         1. A Slurm allocation in which this process was not started by srun does not count as a
///         launcher, because its SLURM_NTASKS counts processes that do not exist.
///         The address is the first of --master-addr, MASTER_ADDR, the first node of the Slurm step, and this
///         machine if all ranks are on it. The port is the first of --master-port, MASTER_PORT (plus one if
///         torchrun's agent itself listens at MASTER_PORT), a port computed from the numbers of the Slurm job
///         and step or from Open MPI's name of the job, and kDefaultPort. MPICH and Intel MPI do not name
///         their jobs, so two such jobs on one node at the same time need a --master-port each.
/// Errors  launch_partly_set (an incomplete set of variables: a rank without a size, or ranks that may be on
///         several nodes without an address), launch_number (not a whole number), launch_range (rank >=
///         world size, local rank >= local size, a number outside its limits, a port outside 1 to 65535),
///         launch_address (not a host name or an address), launch_contradiction (RANK differs from the rank
///         of an MPI or of Slurm, or two MPIs differ; the same for the world size), host_list.
/// Source  the manuals of torchrun, mpirun (Open MPI), Hydra, Intel MPI, MVAPICH2, srun.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sim {

using Environment = std::map<std::string, std::string>;

/// Returns the current environment of this process.
Environment environment_of_process();

/// The values that the command line gives. A rank and a world size given here are used instead of those of
/// any launcher. An address or a port may also be given alone, beside the values of a launcher.
struct ExplicitLaunch {
  std::optional<std::string> rank;              // --rank
  std::optional<std::string> world_size;        // --world-size
  std::optional<std::string> local_rank;        // --local-rank
  std::optional<std::string> local_world_size;  // --local-world-size
  std::optional<std::string> master_addr;       // --master-addr
  std::optional<std::string> master_port;       // --master-port
};

inline constexpr int kDefaultPort = 29511;  // below the ephemeral ports of the system

/// The rank of this process among the ranks of its node.
struct LocalPlace {
  int rank = 0;
  int world_size = 1;
  bool operator==(const LocalPlace&) const = default;
};

struct Launch {
  /// It is one of "explicit", "torchrun", "RANK and WORLD_SIZE", "Open MPI", "MPICH or Intel MPI",
  /// "MVAPICH2", "Slurm" and "none".
  std::string launcher;
  int rank = 0;
  int world_size = 1;
  /// Absent if the launcher does not tell it. The rendezvous then counts the ranks of each host.
  std::optional<LocalPlace> local;
  std::string master_addr;  // this machine, if no address is given and all ranks are on it
  int master_port = kDefaultPort;
  /// The names of the options and variables that these values come from, in the order they were read.
  std::vector<std::string> read;
  bool operator==(const Launch&) const = default;
};

Launch detect_launch(const ExplicitLaunch& given, const Environment& environment);

/// Describes a launch in one line.
std::string text_of(const Launch& launch);

}  // namespace sim
