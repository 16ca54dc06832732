#pragma once

/// The backends that compute on GPUs: "nccl", a process and a GPU a rank, and "cuda", virtual ranks on one
/// GPU. Of the program, not of the library: who builds against the library needs no CUDA.
///
/// Errors  those of gpu/nccl/nccl_cluster.h and gpu/device/cuda_device.h.
/// Exact   NCCL's twins add in the order nccl_ring. The field stays on CPUs.

#include "gpu/nccl/nccl_library.h"
#include "verify/backends/backend.h"

namespace verify {

std::unique_ptr<Backend> open_gpu_backend(const BackendRequest& request,
                                          const gpu::OpenNccl& open_nccl = gpu::open_nccl);

}  // namespace verify
