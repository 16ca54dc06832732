#pragma once

/// Turns an error of the CUDA runtime into a refusal.
///
/// Errors  cuda_failed.

#include <cuda_runtime_api.h>

namespace gpu {

/// Refuses if `error` is not cudaSuccess. `call` names the CUDA function that returned it.
void check(cudaError_t error, const char* call);

}  // namespace gpu
