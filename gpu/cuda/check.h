#pragma once

/// An error of the CUDA runtime becomes a refusal.
///
/// Errors  cuda_failed.

#include <cuda_runtime_api.h>

namespace gpu {

void check(cudaError_t error, const char* call);

}  // namespace gpu
