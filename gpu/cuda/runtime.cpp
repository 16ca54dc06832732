#include "gpu/device/runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "gpu/cuda/check.h"
#include "gpu/device/refusals.h"

namespace gpu {

namespace {

cudaStream_t native(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

/// Whether the GPU reads pageable memory of the host directly, as processors do: with HMM, or over NVLink.
bool reads_pageable_memory() {
  int gpu = 0;
  int reads = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&reads, cudaDevAttrPageableMemoryAccess, gpu), "cudaDeviceGetAttribute");
  return reads != 0;
}

}  // namespace

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) refuse_failed(call, cudaGetErrorName(error), cudaGetErrorString(error));
}

void open_gpu(int ordinal) {
  int count = 0;  // CUDA does not write it if the call fails
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    refuse_unavailable(ordinal, fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error)),
                       "a machine with an NVIDIA GPU and its driver, or the cpu device");
  }
  if (ordinal < 0 || ordinal >= count) {
    refuse_unavailable(ordinal, fmt::format("this process sees {} GPUs", count),
                       "a smaller device number; CUDA_VISIBLE_DEVICES says which GPUs a process sees");
  }
  cudaError_t started = cudaSetDevice(ordinal);  // since CUDA 12 this also creates the context
  if (started == cudaSuccess) started = cudaFree(nullptr);
  if (started != cudaSuccess) {
    refuse_unavailable(ordinal, fmt::format("{}: {}", cudaGetErrorName(started), cudaGetErrorString(started)),
                       "a GPU that this user may use, and that no other process has for itself");
  }
}

void use_gpu(int ordinal) { check(cudaSetDevice(ordinal), "cudaSetDevice"); }

std::byte* allocate(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error, so that later calls do not report it
    check(error, "cudaMalloc");
  }
  return static_cast<std::byte*>(block);
}

// The next two functions ignore errors: when a process ends, the runtime may be gone before the last tensor.
void release(std::byte* block) { static_cast<void>(cudaFree(block)); }
void end_stream(Stream* stream) { static_cast<void>(cudaStreamDestroy(native(stream))); }

Stream* make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return reinterpret_cast<Stream*>(stream);
}

void wait_for(Stream* stream) { check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize"); }

void order_after(Stream* later, Stream* earlier) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const cudaError_t recorded = cudaEventRecord(event, native(earlier));
  const cudaError_t waits =
      recorded == cudaSuccess ? cudaStreamWaitEvent(native(later), event, 0) : cudaSuccess;
  const cudaError_t gone = cudaEventDestroy(event);  // CUDA frees the event after it has happened
  check(recorded, "cudaEventRecord");
  check(waits, "cudaStreamWaitEvent");
  check(gone, "cudaEventDestroy");
}

void copy_to_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)),
        "cudaMemcpyAsync to the GPU");
  // CUDA stages pageable memory before the call returns, unless the GPU reads pageable memory directly. In
  // that case the host must wait for the copy.
  if (reads_pageable_memory()) wait_for(stream);
}

void copy_from_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, native(stream)),
        "cudaMemcpyAsync from the GPU");
}

void copy_on_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  if (bytes == 0 || from == to) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)),
        "cudaMemcpyAsync on the GPU");
}

void set_bytes(Stream* stream, void* to, int value, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, value, bytes, native(stream)), "cudaMemsetAsync");
}

}  // namespace gpu
