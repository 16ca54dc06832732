#pragma once

/// A backend runs rank programs outside of the simulator: on real processes, or on another device. The result
/// of each rank is compared with that of its twin, a virtual rank on the CPU (twin_program.h).
///
///   mpi    this process is one rank of a world of processes, and computes on its CPU (backend.cpp)
///   nccl   this process is one rank of a world of processes, and computes on a GPU (gpu_backends.h)
///   cuda   all ranks are virtual ranks in this process, and compute on one GPU (gpu_backends.h)
///
/// Calls   all processes make the same calls. finish() is called once, and then close().
/// Errors  opening a backend: backend_unavailable, where it is not in this program, cuda_unavailable,
///         and those of sim/mpi/cluster.h or gpu/nccl/nccl_cluster.h. If ranks are processes, an error of a
///         rank program ends all processes; otherwise it is a failure of the run.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/world_spec.h"
#include "verify/requests/backend_choice.h"

namespace sim {
struct ClusterWorld;
struct Conclusion;
struct Report;
}  // namespace sim

namespace verify {

struct BackendRequest {
  BackendChoice choice;             // of a kind that is not null
  std::uint64_t configuration = 0;  // a hash of what has to be the same on every process
  std::chrono::milliseconds deadline() const { return std::chrono::seconds(choice.deadline); }
};

/// The reports of the ranks of this process.
struct RanksHere {
  std::vector<sim::RankReport> ranks;             // in ascending order
  std::vector<std::shared_ptr<const void>> kept;  // the objects to which their call records point
  std::string failure = {};                       // the broken contract; empty if there is none
};

/// The conditions under which a backend gives the same bits as the twins: all of them must hold.
struct SameBits {
  bool sums = true;     // collectives add in a known order
  bool kernels = true;  // the device's kernels add in the order of the CPU device
  bool all() const { return sums && kernels; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual bool ranks_are_processes() const = 0;  // false: all ranks are in this process
  virtual int rank() const = 0;                  // rank of this process
  virtual int processes() const = 0;
  virtual bool has(sim::DType dtype) const = 0;
  virtual SameBits same_bits() const = 0;
  /// The reduction order of the twins; none: that of the world.
  virtual std::optional<sim::ReductionOrderKind> order() const { return std::nullopt; }
  /// Runs the program on the ranks of this process. Ranks that compute on the CPU use `cpu`.
  virtual RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu,
                        const sim::RankProgram& program) = 0;
  virtual sim::Conclusion finish(const sim::Report& report) = 0;
  virtual void close() = 0;
  /// If it is set: a process calls it with the calls of its rank if the rank's program ends with an error,
  /// before all processes end.
  std::function<void(const sim::RankReport&)> on_broken_run = {};
  /// Writes the reason `text`, and ends all processes.
  [[noreturn]] virtual void end_all(const std::string& text, int exit_code) = 0;
};

/// Returns the same world for processes of this backend.
sim::ClusterWorld cluster_world(const sim::WorldSpec& world, const Backend& backend);

/// Does `work`. If it throws and ranks are processes, all processes are ended, so that none of them waits for
/// this one; otherwise the exception goes on to the caller.
void run_or_end_all(Backend& backend, const std::function<void()>& work);

/// Waits a while. When several processes end before they have met, the ranks other than rank 0 call this
/// first, because the first process that ends may end all of them, and rank 0 must have written the reason by
/// then.
void let_rank_0_speak();

/// How the backends of one kind are opened.
struct BackendOpener {
  const char* kind;  // the name of the kind in backend_kinds()
  /// Refuses if the program was built without it. Its argument is the option that asks for the backend.
  std::function<void(const std::string&)> require_built = [](const std::string&) {};
  std::function<std::unique_ptr<Backend>(const BackendRequest&)> open;
};
using BackendOpeners = std::vector<BackendOpener>;

/// Refuses a backend whose library was absent when this program was built, before any work. `more` are the
/// rows of the program, for the backends that it adds to those of this library.
void require_built(const BackendChoice& choice, const BackendOpeners& more);

/// Opens the backend. Rank 0 writes to `err` which launcher gave the processes their ranks.
std::unique_ptr<Backend> open_backend(const BackendRequest& request, const BackendOpeners& more,
                                      std::ostream& err);

/// Returns the beginning of a command line that starts this many processes, "mpirun -n 4 "; "" for one
/// process.
std::string launched(int processes);

}  // namespace verify
