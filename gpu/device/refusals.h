#pragma once

/// Refusals with the message that a user reads when CUDA or NCCL cannot do what was asked.
///
/// Errors  cuda_unavailable, cuda_failed, cuda_dtype, backend_unavailable, nccl_failed.

#include <string>

namespace gpu {

/// Refuses a GPU that cannot be used. `numbers` says what was found instead.
[[noreturn]] void refuse_unavailable(int ordinal, const std::string& numbers, const std::string& hint);
/// Refuses because a call of CUDA failed, with the name of the error and CUDA's description of it.
[[noreturn]] void refuse_failed(const char* call, const std::string& name, const std::string& words);
/// Refuses the vendor's kernels because cuBLAS cannot be used.
[[noreturn]] void refuse_cublas(const std::string& problem);
/// Refuses NCCL because its library cannot be used.
[[noreturn]] void refuse_no_nccl(const std::string& problem);
/// Refuses a dtype that the device does not have.
[[noreturn]] void refuse_dtype(const char* dtype);
/// Refuses because a call of NCCL failed, with NCCL's description of the error.
[[noreturn]] void refuse_nccl(const std::string& call, const std::string& words);

}  // namespace gpu
