#include "verify/backends/gpu_backends.h"

#include "gpu/device/gpu_device.h"
#include "gpu/nccl/nccl_cluster.h"
#include "sim/launch/process_world.h"
#include "verify/backends/device_backend.h"
#include "verify/backends/process_backend.h"

namespace verify {

namespace {

gpu::GpuMode mode_of(const BackendRequest& request) {
  return request.choice.vendor_kernels ? gpu::GpuMode::vendor : gpu::GpuMode::exact;
}

class NcclBackend : public ProcessBackend<gpu::NcclCluster> {
 public:
  NcclBackend(const BackendRequest& request, const gpu::OpenNccl& open)
      : ProcessBackend(request, gpu::NcclClusterSpec{
                                    .launch = request.choice.launch,
                                    .program_version = SHARDPROOF_VERSION,
                                    .configuration = request.configuration,
                                    .options = {.order = request.choice.any_order ? gpu::NcclOrder::any
                                                                                  : gpu::NcclOrder::exact,
                                                .ranks_per_gpu = request.choice.ranks_per_gpu,
                                                .deadline = request.deadline()},
                                    .mode = mode_of(request),
                                    .open = open}) {}

  const char* name() const override { return "nccl"; }
  bool has(sim::DType dtype) const override { return dtype != sim::DType::field; }
  SameBits same_bits() const override {
    return {!request_.choice.any_order, !request_.choice.vendor_kernels};
  }
  std::optional<sim::ReductionOrderKind> order() const override { return sim::ReductionOrderKind::nccl_ring; }
  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice&, const sim::RankProgram& program) override {
    return own_rank(cluster_.run(cluster_world(world, *this), program));
  }
};

}  // namespace

BackendOpeners gpu_backends(const gpu::OpenNccl& open_nccl) {
  return {{.kind = "nccl",
           .open =
               [open_nccl](const BackendRequest& request) {
                 return std::make_unique<NcclBackend>(request, open_nccl);
               }},
          {.kind = "cuda", .open = [](const BackendRequest& request) {
             return std::make_unique<DeviceBackend>("cuda", gpu::make_gpu_device({.mode = mode_of(request)}),
                                                    SameBits{.kernels = !request.choice.vendor_kernels});
           }}};
}

}  // namespace verify
