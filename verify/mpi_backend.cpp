#include "verify/mpi_backend.h"

#include <utility>

#include "sim/cluster/cluster.h"

namespace verify {

namespace {

class MpiBackend : public Backend {
 public:
  explicit MpiBackend(const BackendRequest& request)
      : processes_(request.launch.world_size),
        any_order_(request.any_order),
        cluster_({.launch = request.launch,
                  .program_version = SHARDPROOF_VERSION,
                  .configuration = request.configuration,
                  .deadline = request.deadline}) {}

  const char* name() const override { return "mpi"; }
  int rank() const override { return cluster_.rank(); }
  int processes() const override { return processes_; }
  bool has(sim::DType) const override { return true; }
  SameBits same_bits() const override { return {.sums = !any_order_}; }

  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu, const sim::RankProgram& program) override {
    sim::ProcessReport report = cluster_.run(cluster_world(world), cpu, program);
    return {{std::move(report.rank)}, {report.kept.begin(), report.kept.end()}};
  }

  sim::Conclusion finish(const sim::Report& report) override { return cluster_.finish(report); }
  void close() override { cluster_.close(); }
  [[noreturn]] void end_all(const std::string& text, int exit_code) override {
    cluster_.end_all(text, exit_code);
  }

 private:
  int processes_;
  bool any_order_;
  sim::Cluster cluster_;
};

}  // namespace

std::unique_ptr<Backend> open_mpi_backend(const BackendRequest& request) {
  return std::make_unique<MpiBackend>(request);
}

}  // namespace verify
