#pragma once

/// This process as one rank of a world of processes, each with a GPU: the counterpart of sim::Cluster for
/// NCCL.
///
///   NcclCluster cluster({.launch = sim::detect_launch({}, sim::environment_of_process()),
///                        .program_version = "1"});
///   const sim::ProcessReport report = cluster.run({.layout = layout}, [](sim::Rank& rank) { ... });
///   const sim::Conclusion conclusion = cluster.finish({is_equal, text});
///   cluster.close();
///
/// Calls   All processes make the same calls. The constructor sets NCCL's environment, meets the other
///         processes over TCP, where all receive the world's id from rank 0, and takes the GPU local rank %
///         GPUs. Only then does it ask NCCL for the world, with a deadline. A process may have one cluster.
///         The `reduction_order` and `eager_bytes` of a world are those of NCCL here.
/// Errors  Thrown by the constructor, before it asks NCCL for the world: those of rendezvous.h,
///         nccl_library.h and gpu_device.h; nccl_options. From then on, an error of the program, an error
///         that NCCL reports, or a passed deadline is written to standard error with this rank's name. Then
///         every communicator is aborted and the process ends with exit code 3. The other processes end too,
///         by NCCL or by their own deadlines. The codes are those of nccl_communicator.h; rank_threw,
///         pending_work.
/// Exact   With NcclOrder::exact, published values and call records are the same as on virtual ranks of the
///         same world in the order nccl_ring.

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/nccl/nccl_communicator.h"
#include "sim/comm/rank.h"
#include "sim/launch/process_world.h"
#include "sim/meeting/rendezvous.h"

namespace gpu {

struct NcclClusterSpec {
  sim::Launch launch;
  std::string program_version;
  std::uint64_t configuration = 0;  // a hash of settings, beside the options, that all ranks must share
  NcclOptions options;
  GpuMode mode = GpuMode::exact;
  OpenNccl open = [] { return open_nccl(); };
};

class NcclCluster {
 public:
  explicit NcclCluster(NcclClusterSpec spec);

  int rank() const { return spec_.launch.rank; }
  sim::ProcessReport run(const sim::ClusterWorld& world, const sim::RankProgram& program);
  sim::Conclusion finish(const sim::Report& report);
  void close();
  /// Writes `text` to standard error with this rank's name, aborts all communicators, and ends the process.
  [[noreturn]] void end_all(const std::string& text, int exit_code);

 private:
  template <typename Work>
  auto ended_by_errors(const Work& work) -> decltype(work());
  void await_world(const char* what);

  NcclClusterSpec spec_;
  std::unique_ptr<NcclLibrary> library_;
  std::unique_ptr<sim::Rendezvous> rendezvous_;
  std::shared_ptr<sim::Device> device_;
  std::unique_ptr<NcclLink> world_;  // null in a world of one rank
};

}  // namespace gpu
