#pragma once

/// The backends that compute on GPUs: "nccl", in which every rank is a process with a GPU, and "cuda", in
/// which virtual ranks share one GPU. They belong to the program and not to the library, so that a project
/// that builds against the library needs no CUDA.
///
/// Errors  those of gpu/nccl/nccl_cluster.h and gpu/device/gpu_device.h.
/// Exact   the twins of NCCL ranks add in the order nccl_ring. The field is computed on CPUs only.

#include "gpu/nccl/nccl_library.h"
#include "verify/backends/backend.h"

namespace verify {

BackendOpeners gpu_backends(const gpu::OpenNccl& open_nccl = gpu::open_nccl);

}  // namespace verify
