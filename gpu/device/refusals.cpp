#include "gpu/device/refusals.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace gpu {

void refuse_unavailable(int ordinal, const std::string& numbers, const std::string& hint) {
  sim::refuse(
      {.code = "cuda_unavailable",
       .option = fmt::format("CUDA device {}", ordinal),
       .numbers = numbers,
       .rule = "a CUDA device is a GPU of this machine, with a driver, in a program that was built with CUDA",
       .hint = hint});
}

void refuse_failed(const char* call, const std::string& name, const std::string& words) {
  const bool is_memory = name.find("emoryAllocation") != std::string::npos;
  sim::refuse(
      {.code = "cuda_failed",
       .option = call,
       .numbers = fmt::format("{}: {}", name, words),
       .rule = "every call of CUDA succeeds",
       .hint = is_memory
                   ? "smaller tensors, fewer ranks, or a GPU that nobody else uses"
                   : "CUDA_LAUNCH_BLOCKING=1 makes the kernel that failed report itself; compute-sanitizer "
                     "finds out why"});
}

void refuse_dtype(const char* dtype) {
  sim::refuse({.code = "cuda_dtype",
               .option = fmt::format("dtype {}", dtype),
               .numbers = "a tensor on a CUDA device",
               .rule = "CUDA devices compute in f64, f32 and bf16",
               .hint = "the cpu device has the field"});
}

void refuse_nccl(const std::string& call, const std::string& words) {
  const bool is_shared = words.find("Duplicate GPU") != std::string::npos;
  sim::refuse({.code = "nccl_failed",
               .option = call,
               .numbers = words,
               .rule = "every call of NCCL succeeds, on every rank",
               .hint = is_shared
                           ? "--ranks-per-gpu N, where N processes share a GPU"
                           : "NCCL_DEBUG=INFO says what it does; look at what the other ranks wrote first"});
}

}  // namespace gpu
