#include "verify/gpu_backends.h"

#include <utility>

#include "gpu/cuda_device.h"
#include "gpu/nccl_cluster.h"
#include "verify/device_backend.h"

namespace verify {

namespace {

gpu::CudaMode mode_of(const BackendRequest& request) {
  return request.vendor_kernels ? gpu::CudaMode::vendor : gpu::CudaMode::exact;
}

class NcclBackend : public Backend {
 public:
  NcclBackend(const BackendRequest& request, const gpu::OpenNccl& open)
      : request_(request),
        cluster_({.launch = request.launch,
                  .program_version = SHARDPROOF_VERSION,
                  .configuration = request.configuration,
                  .options = {.order = request.any_order ? gpu::NcclOrder::any : gpu::NcclOrder::exact,
                              .ranks_per_gpu = request.ranks_per_gpu,
                              .deadline = request.deadline},
                  .mode = mode_of(request),
                  .open = open}) {}

  const char* name() const override { return "nccl"; }
  int rank() const override { return cluster_.rank(); }
  int processes() const override { return request_.launch.world_size; }
  bool has(sim::DType dtype) const override { return dtype != sim::DType::field; }
  SameBits same_bits() const override { return {!request_.any_order, !request_.vendor_kernels}; }
  std::optional<sim::ReductionOrderKind> order() const override { return sim::ReductionOrderKind::nccl_ring; }

  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice&, const sim::RankProgram& program) override {
    sim::ProcessReport report = cluster_.run(cluster_world(world), program);
    return {{std::move(report.rank)}, {report.kept.begin(), report.kept.end()}};
  }

  sim::Conclusion finish(const sim::Report& report) override { return cluster_.finish(report); }
  void close() override { cluster_.close(); }
  [[noreturn]] void end_all(const std::string& text, int exit_code) override {
    cluster_.end_all(text, exit_code);
  }

 private:
  BackendRequest request_;
  gpu::NcclCluster cluster_;
};

}  // namespace

std::unique_ptr<Backend> open_gpu_backend(const BackendRequest& request, const gpu::OpenNccl& open_nccl) {
  if (request.name == "nccl") return std::make_unique<NcclBackend>(request, open_nccl);
  return std::make_unique<DeviceBackend>("cuda", gpu::make_cuda_device({.mode = mode_of(request)}),
                                         SameBits{.kernels = !request.vendor_kernels});
}

}  // namespace verify
