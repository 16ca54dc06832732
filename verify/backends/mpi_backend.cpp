#include "verify/backends/mpi_backend.h"

#include "sim/mpi/cluster.h"
#include "verify/backends/process_backend.h"

namespace verify {

namespace {

class MpiBackend : public ProcessBackend<sim::Cluster> {
 public:
  explicit MpiBackend(const BackendRequest& request)
      : ProcessBackend(
            request, sim::ClusterSpec{.launch = request.choice.launch,
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

}  // namespace

std::unique_ptr<Backend> open_mpi_backend(const BackendRequest& request) {
  return std::make_unique<MpiBackend>(request);
}

}  // namespace verify
