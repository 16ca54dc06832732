#include "verify/backends/backend.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <string_view>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/launch/process_world.h"
#include "sim/mpi/cluster.h"
#include "sim/mpi/mpi_wire.h"
#include "verify/backends/process_backend.h"
#include "verify/output/output.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

// ---- processes of MPI
//
// The backend "mpi": this process is one rank and computes on its CPU. The processes of its world form the
// cluster of sim/mpi/cluster.h.
//
// Errors  those of sim/mpi/cluster.h; backend_unavailable in a program that was built without MPI.

class MpiBackend : public ProcessBackend<sim::Cluster> {
 public:
  explicit MpiBackend(const BackendRequest& request)
      : ProcessBackend(request, sim::ClusterSpec{.launch = request.choice.launch,
                                                 .program_version = SHARDPROOF_VERSION,
                                                 .configuration = request.configuration,
                                                 .deadline = request.deadline()}) {}

  const char* name() const override { return "mpi"; }
  bool has(sim::DType) const override { return true; }
  SameBits same_bits() const override { return {}; }
  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu, const sim::RankProgram& program) override {
    return own_rank(cluster_.run(cluster_world(world, *this), cpu, program));
  }
};

std::unique_ptr<Backend> open_mpi_backend(const BackendRequest& request) {
  return std::make_unique<MpiBackend>(request);
}

const BackendOpeners& own_openers() {
  static const BackendOpeners openers = {
      {.kind = "mpi", .require_built = sim::require_mpi, .open = open_mpi_backend}};
  return openers;
}

/// Returns null if neither this library nor the program opens backends of this kind.
const BackendOpener* find_opener(const BackendChoice& choice, const BackendOpeners& more) {
  for (const BackendOpeners* openers : {&own_openers(), &more}) {
    const auto found = std::find_if(openers->begin(), openers->end(), [&](const BackendOpener& opener) {
      return std::string_view(opener.kind) == choice.kind->name;
    });
    if (found != openers->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

sim::ClusterWorld cluster_world(const sim::WorldSpec& world, const Backend& backend) {
  return {.layout = world.layout,
          .nodes = world.nodes,
          .reduction_order = world.reduction_order,
          .eager_bytes = world.eager_bytes,
          .seed = world.seed,
          .call_limit = world.call_limit,
          .on_broken_run = backend.on_broken_run};
}

void run_or_end_all(Backend& backend, const std::function<void()>& work) {
  try {
    work();
  } catch (const sim::Error& error) {
    if (!backend.ranks_are_processes()) throw;
    backend.end_all(sim::text_of(error.refusal()), kRefused);
  } catch (const std::exception& error) {
    if (!backend.ranks_are_processes()) throw;
    backend.end_all(fmt::format("stopped by the system: {}\n", sim::printable_text(sim::text_of(error))),
                    kRefused);
  }
}

void let_rank_0_speak() {
  constexpr std::chrono::seconds kForRank0{2};
  std::this_thread::sleep_for(kForRank0);
}

void require_built(const BackendChoice& choice, const BackendOpeners& more) {
  if (const BackendOpener* opener = find_opener(choice, more)) opener->require_built(choice.kind->asked_by);
}

std::unique_ptr<Backend> open_backend(const BackendRequest& request, const BackendOpeners& more,
                                      std::ostream& err) {
  const sim::Launch& launch = request.choice.launch;
  if (launch.rank == 0 && launch.world_size > 1)
    err << "shardproof: " << sim::text_of(launch) << "\n" << std::flush;
  if (const BackendOpener* opener = find_opener(request.choice, more)) return opener->open(request);
  refuse_by("backend_unavailable", request.choice.kind->asked_by);
}

std::string launched(int processes) { return processes == 1 ? "" : fmt::format("mpirun -n {} ", processes); }

}  // namespace verify
