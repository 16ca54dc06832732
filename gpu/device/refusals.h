#pragma once

/// What a reader is told when CUDA or NCCL cannot do what it is asked for.
///
/// Errors  cuda_unavailable, cuda_failed, cuda_dtype, nccl_failed.

#include <string>

namespace gpu {

/// `numbers`: what there is instead.
[[noreturn]] void refuse_unavailable(int ordinal, const std::string& numbers, const std::string& hint);
/// A call of CUDA, the error's name, and what CUDA says about it.
[[noreturn]] void refuse_failed(const char* call, const std::string& name, const std::string& words);
[[noreturn]] void refuse_dtype(const char* dtype);
/// A call of NCCL that failed, and what NCCL says of it.
[[noreturn]] void refuse_nccl(const std::string& call, const std::string& words);

}  // namespace gpu
