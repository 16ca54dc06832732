#include "gpu/device/refusals.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace gpu {

void refuse_unavailable(int ordinal, const std::string& numbers, const std::string& hint) {
  sim::refuse(
      {.code = "cuda_unavailable",
       .option = fmt::format("CUDA device {}", ordinal),
       .numbers = numbers,
       .rule =
           "a CUDA device needs a GPU in this machine, its driver, and a program that was built with CUDA",
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
                   ? "smaller tensors, fewer ranks, or a GPU that no other process uses"
                   : "CUDA_LAUNCH_BLOCKING=1, with which the failing kernel is reported at its launch, or "
                     "compute-sanitizer, which finds the cause"});
}

void refuse_cublas(const std::string& problem) {
  sim::refuse({.code = "cuda_unavailable",
               .option = "--cuda-kernels vendor",
               .numbers = "cuBLAS: " + problem,
               .rule = "the vendor's kernels are those of cuBLAS, which is loaded when they are asked for",
               .hint = "LD_LIBRARY_PATH with the folder of libcublas.so of the CUDA toolkit with which this "
                       "program was built, or --cuda-kernels exact, which needs no library"});
}

void refuse_no_nccl(const std::string& problem) {
  sim::refuse({.code = "backend_unavailable",
               .option = "--backend nccl",
               .numbers = "NCCL: " + problem,
               .rule = "NCCL is loaded when it is asked for, in version 2.18 or a later one",
               .hint = "LD_LIBRARY_PATH with the folder of libnccl.so.2, or --backend mpi"});
}

void refuse_dtype(const char* dtype) {
  sim::refuse({.code = "cuda_dtype",
               .option = fmt::format("dtype {}", dtype),
               .numbers = "a tensor on a CUDA device has this dtype",
               .rule = "CUDA devices compute in f64, f32 and bf16",
               .hint = "the cpu device, which computes in all dtypes"});
}

void refuse_nccl(const std::string& call, const std::string& words) {
  const bool is_shared = words.find("Duplicate GPU") != std::string::npos;
  sim::refuse({.code = "nccl_failed",
               .option = call,
               .numbers = words,
               .rule = "every call of NCCL succeeds, on every rank",
               .hint = is_shared
                           ? "--ranks-per-gpu N, where N processes share a GPU"
                           : "read what the other ranks wrote; NCCL_DEBUG=INFO makes NCCL say what it does"});
}

}  // namespace gpu
