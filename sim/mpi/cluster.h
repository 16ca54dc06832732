#pragma once

/// This process as one rank of a world of processes.
///
///   Cluster cluster({.launch = detect_launch({}, environment_of_process()), .program_version = "1",
///   .configuration = hash}); const ProcessReport report = cluster.run({.layout = layout}, device, [](Rank&
///   rank) { ... }); const Conclusion conclusion = cluster.finish({is_equal, text});
///   ... rank 0 says what came out ...
///   cluster.close();
///
/// Calls   all processes make the same ones. The constructor meets the others over TCP (rendezvous.h) and
///         only then starts MPI, which would wait for ever for one that never comes. Programs run one after
///         the other. Whether reductions are native is a part of the configuration that all have to have.
/// Errors  thrown before the world starts: those of rendezvous.h and mpi_wire.h; backend_world: the layout
///         has not as many ranks as there are processes. Said, and all ended with exit code 2:
///         launch_contradiction: MPI counts ranks otherwise than the launcher; mpi_failed: no native
///         reductions. process_silent (watch.h): others do not come where MPI starts, makes groups, or ends.
///         In a program, what it does wrong, or another rank does that is silent or gone, is written to
///         standard error with this rank's name, and ends all processes with exit code 3: the codes of
///         mpi_communicator.h; rank_threw, pending_work, unmatched_send.
/// Exact   what is published and recorded is the same as on virtual ranks of the same world; with native
///         reductions, where native_reductions.h says that their bits are.

#include <memory>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/launch/launch.h"
#include "sim/launch/process_world.h"
#include "sim/meeting/rendezvous.h"
#include "sim/mpi/mailbox.h"
#include "sim/mpi/mpi_wire.h"
#include "sim/mpi/native_reductions.h"
#include "sim/mpi/watch.h"

namespace sim {

struct ClusterSpec {
  Launch launch;
  std::string program_version;
  std::uint64_t configuration = 0;             // a hash of what has to be the same on every rank
  std::chrono::milliseconds deadline{60'000};  // of every wait for others
  OpenWire open_wire = [] { return open_mpi_wire(); };
  MpiReductions reductions = MpiReductions::folded;
  OpenNativeReductions open_native = [] { return open_mpi_reductions(); };
};

struct ProcessRun;

class Cluster {
 public:
  explicit Cluster(ClusterSpec spec);

  int rank() const { return spec_.launch.rank; }
  /// That MPI was asked for, on this process.
  std::int64_t native_reductions() const { return native_ == nullptr ? 0 : native_->started(); }
  ProcessReport run(const ClusterWorld& world, Device& device, const RankProgram& program);
  Conclusion finish(const Report& report);
  void close();
  /// Says why, with this rank's name, and ends all processes.
  [[noreturn]] void end_all(const std::string& text, int exit_code);

 private:
  void check_wire();
  WatchedCall watched(const char* what) const { return {rank(), spec_.deadline, what}; }
  void open_native();
  ProcessReport run_program(const ClusterWorld& world, Device& device, const RankProgram& program);
  void end_program(const ProcessRun& run);

  ClusterSpec spec_;
  Rendezvous rendezvous_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<NativeReductions> native_;  // null: folded
  std::uint32_t runs_ = 0;
};

}  // namespace sim
