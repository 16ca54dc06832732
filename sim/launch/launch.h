#pragma once

/// Finds the rank of this process, the size of its world, and the address at which the world meets, as a pure
/// function of the command line and of the environment, in which the launcher sets its variables.
///
///   const Launch launch = detect_launch({}, environment_of_process());
///   std::cerr << text_of(launch);
///
/// Calls   the first of these decides: options; torchrun, and anything else that sets RANK and WORLD_SIZE;
///         Open MPI; MPICH and Intel MPI (PMI); MVAPICH2; a task of a Slurm step (srun, with or without an
///         MPI plugin). Without any, the process is a world of size 1: the variables of an allocation that
///         srun did not divide count processes that do not exist.
///         The address is the first of --master-addr, MASTER_ADDR, the first node of the Slurm step, and this
///         machine if all ranks are on it. The port is the first of --master-port, MASTER_PORT (plus one if
///         torchrun's agent itself listens there), one made of the numbers of the Slurm job and step or of
///         Open MPI's name of the job, and kDefaultPort. MPICH and Intel MPI do not name their jobs, so two
///         such jobs on one node at the same time need a --master-port each.
/// Errors  launch_partly_set (a rank without a size, or ranks that may be on several nodes without an
///         address), launch_number (not a whole number), launch_range (rank >= world size, local rank >=
///         local size, a number outside its limits), launch_address (not a host name or an address),
///         launch_contradiction (two launchers, of which neither started the other, differ), host_list.
/// Source  the manuals of torchrun, mpirun (Open MPI), Hydra, Intel MPI, MVAPICH2, srun; Slurm's manual of
///         scontrol, show hostnames, and of sbatch, SLURM_TASKS_PER_NODE.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sim {

using Environment = std::map<std::string, std::string>;

/// Returns the current environment of this process.
Environment environment_of_process();

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

/// `options` are those of the command line: --rank, --world-size, --local-rank, --local-world-size,
/// --master-addr, --master-port. A rank and a world size are used instead of those of any launcher; an
/// address or a port may be given beside the values of a launcher.
Launch detect_launch(const Environment& options, const Environment& environment);

/// Describes a launch in one line.
std::string text_of(const Launch& launch);

// The two kinds of compressed lists that Slurm writes. Numbers keep leading zeros: the first host of
// "gpu[01-03]" is gpu01. A list is refused (host_list) that has an empty name, a bracket that nests or has no
// partner, a range or a count that is not made of numbers of at most nine digits, a range that descends, or
// more than 2^20 nodes. `variable` holds the list, and is used in messages only.

/// Returns the name of the first host of a list: "gpu[01-03,7],login1".
std::string first_host(const std::string& variable, const std::string& list);

/// Returns the number of tasks on node 0, 1, 2, ... of a list: "4(x2),3".
std::vector<int> expand_tasks_per_node(const std::string& variable, const std::string& list);

}  // namespace sim
