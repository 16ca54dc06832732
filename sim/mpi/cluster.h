#pragma once

/// A world of processes that communicate over MPI, seen from this process, which runs one rank of it.
///
///   Cluster cluster({.launch = detect_launch({}, environment_of_process()),
///                    .program_version = "1",
///                    .configuration = hash});
///   const ProcessReport report = cluster.run({.layout = layout}, device, [](Rank& rank) { ... });
///   const Conclusion conclusion = cluster.finish({is_equal, text});
///   ... rank 0 reports the conclusion ...
///   cluster.close();
///
/// Calls   all processes make the same calls. The constructor meets the others over TCP (rendezvous.h) and
///         starts MPI only then, because MPI would wait forever for a process that never comes. Programs run
///         one after the other.
/// Errors  the constructor throws the codes of rendezvous.h and mpi_wire.h. It writes these to standard error
///         and ends all processes with exit code 2: launch_contradiction (MPI gives this process another rank
///         or world size than the launcher). process_silent (watch.h): other processes do not come while MPI
///         starts or ends. During run(), an error of the program, or of another rank that does not answer or
///         has ended, is written to standard error with this rank's number, and ends all processes with exit
///         code 3: the codes of mpi_communicator.h; backend_world (the number of ranks of the layout differs
///         from the number of processes); rank_threw, pending_work, unmatched_send. A rank that refuses only
///         because another rank has refused (refused_elsewhere.h) lets that rank write its error first.
/// Exact   published values and records are the same as on virtual ranks of the same world.

#include <memory>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/launch/launch.h"
#include "sim/launch/process_world.h"
#include "sim/meeting/rendezvous.h"
#include "sim/mpi/mailbox.h"
#include "sim/mpi/mpi_wire.h"
#include "sim/mpi/watch.h"

namespace sim {

struct ClusterSpec {
  Launch launch;
  std::string program_version;
  std::uint64_t configuration = 0;             // a hash of everything that must be the same on every rank
  std::chrono::milliseconds deadline{60'000};  // the longest time of each wait for other processes
  OpenWire open_wire = [] { return open_mpi_wire(); };
};

struct ProcessRun;

class Cluster {
 public:
  explicit Cluster(ClusterSpec spec);

  int rank() const { return spec_.launch.rank; }
  ProcessReport run(const ClusterWorld& world, Device& device, const RankProgram& program);
  Conclusion finish(const Report& report);
  void close();
  /// Writes a text to standard error, with this rank's number before it, and ends all processes.
  [[noreturn]] void end_all(const std::string& text, int exit_code);

 private:
  void require_wire();
  WatchedCall watched(const char* what) const { return {rank(), spec_.deadline, what}; }
  ProcessReport run_program(const ClusterWorld& world, Device& device, const RankProgram& program);
  void end_program(const ProcessRun& run);

  ClusterSpec spec_;
  Rendezvous rendezvous_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<Mailbox> mailbox_;
  std::uint32_t runs_ = 0;
};

}  // namespace sim
