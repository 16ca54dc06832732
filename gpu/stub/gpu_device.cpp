// This file stands in for the CUDA device in a program that is built without CUDA.

#include "gpu/device/gpu_device.h"

#include "gpu/device/refusals.h"

namespace gpu {

std::shared_ptr<sim::Device> make_gpu_device(GpuOptions options) {
  refuse_unavailable(
      options.ordinal, "this program was built without CUDA",
      "install the CUDA toolkit and configure with -DSHARDPROOF_GPU=ON, or use the cpu device");
}

}  // namespace gpu
