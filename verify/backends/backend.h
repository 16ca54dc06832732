#pragma once

/// Where rank programs run beside the simulator: on real processes, or on another device. What each rank does
/// there is held against its twin, a virtual rank on the CPU (twin_program.h).
///
///   mpi    this process is one rank of a world of processes, on its CPU (mpi_backend.h)
///   nccl   the same, on a GPU (gpu_backends.h)
///   cuda   all ranks are here, virtual ones, on one GPU (gpu_backends.h)
///
/// Calls   all processes make the same ones; finish() once, then close().
/// Errors  opening one: backend_unavailable, cuda_unavailable, and those of sim/mpi/cluster.h or
///         gpu/nccl/nccl_cluster.h. What a program does wrong where ranks are processes ends them all;
///         elsewhere it is a failure of the run.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"
#include "sim/cpu/cpu_device.h"
#include "sim/launch/process_world.h"
#include "sim/meeting/meeting.h"
#include "sim/world/world_spec.h"
#include "verify/options/backend_choice.h"

namespace verify {

struct BackendRequest {
  BackendChoice choice;             // of a kind that is not null
  std::uint64_t configuration = 0;  // a hash of what has to be the same on every process
  std::chrono::milliseconds deadline() const { return std::chrono::seconds(choice.deadline); }
};

/// What the ranks of this process did.
struct RanksHere {
  std::vector<sim::RankReport> ranks;             // ascending
  std::vector<std::shared_ptr<const void>> kept;  // what their call records point to
  std::string failure = {};                       // what broke a contract; empty: nothing
};

/// Bits are those of the twins where all of these are so.
struct SameBits {
  bool sums = true;     // of collectives are added in a known order
  bool kernels = true;  // of the device add in the CPU device's order
  bool all() const { return sums && kernels; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual bool ranks_are_processes() const = 0;  // or all are here
  virtual int rank() const = 0;                  // of this process
  virtual int processes() const = 0;
  virtual bool has(sim::DType dtype) const = 0;
  virtual SameBits same_bits() const = 0;
  /// The order that its twins add in; none: the world's own.
  virtual std::optional<sim::ReductionOrderKind> order() const { return std::nullopt; }
  /// `cpu`: for ranks that compute on the CPU.
  virtual RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu,
                        const sim::RankProgram& program) = 0;
  virtual sim::Conclusion finish(const sim::Report& report) = 0;
  virtual void close() = 0;
  /// Says why, and ends all processes.
  [[noreturn]] virtual void end_all(const std::string& text, int exit_code) = 0;
};

/// The same world, of processes.
sim::ClusterWorld cluster_world(const sim::WorldSpec& world);

/// Does `work`. What stops it here stops all processes, since none may wait for this one; where ranks are no
/// processes it is thrown.
void run_or_end_all(Backend& backend, const std::function<void()>& work);

/// Of several processes that end before they have met, others than rank 0 wait a while: the first to end may
/// end all.
void let_rank_0_speak();

using OpenBackend = std::function<std::unique_ptr<Backend>(const BackendRequest&)>;

}  // namespace verify
