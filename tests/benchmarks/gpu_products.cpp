// Measures square matrix products on a GPU: the project's own kernels, cuBLAS through the device, and
// cuBLAS called alone in the same run. FLOP/s counts two operations for each term. Without a GPU, each
// benchmark is skipped and says why.

#include <benchmark/benchmark.h>
#include <cstdint>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <memory>
#include <string>
#include <vector>

#include "sim/tensor/ops.h"
#include "tests/benchmarks/gpu_device_or_skip.h"

namespace {

using benchmarks::device_or_skip;
using sim::DType;
using sim::Tensor;

constexpr int kProducts = 10;  // the number of products between two waits for the GPU

void count_terms(benchmark::State& state) {
  const auto size = static_cast<double>(state.range(0));
  state.counters["FLOP/s"] =
      benchmark::Counter(2 * size * size * size * kProducts, benchmark::Counter::kIsIterationInvariantRate);
}

/// Waits until the GPU has done everything that this device was asked for.
void wait_for(const Tensor& tensor) { benchmark::DoNotOptimize(sim::host_bytes(tensor.rows(0, 1)).data()); }

void on_device(benchmark::State& state, gpu::GpuMode mode, DType dtype) {
  const std::shared_ptr<sim::Device> device = device_or_skip(state, mode);
  if (device == nullptr) return;
  const sim::Shape shape = {state.range(0), state.range(0)};
  const Tensor a = sim::keyed(*device, dtype, shape, sim::KeyedRandom(1));
  const Tensor b = sim::keyed(*device, dtype, shape, sim::KeyedRandom(2));
  Tensor out = device->empty(dtype, shape);
  device->matmul(a, false, b, false, out, false);
  wait_for(out);
  for (auto _ : state) {
    for (int i = 0; i < kProducts; ++i) device->matmul(a, false, b, false, out, false);
    wait_for(out);
  }
  count_terms(state);
}

void exact_f32(benchmark::State& state) { on_device(state, gpu::GpuMode::exact, DType::f32); }
void exact_f64(benchmark::State& state) { on_device(state, gpu::GpuMode::exact, DType::f64); }
void exact_bf16(benchmark::State& state) { on_device(state, gpu::GpuMode::exact, DType::bf16); }
void vendor_f32(benchmark::State& state) { on_device(state, gpu::GpuMode::vendor, DType::f32); }
void vendor_bf16(benchmark::State& state) { on_device(state, gpu::GpuMode::vendor, DType::bf16); }

/// Memory on the GPU that only cuBLAS works on.
class Block {
 public:
  explicit Block(std::size_t bytes) : is_there_(cudaMalloc(&first_, bytes) == cudaSuccess) {}
  ~Block() { static_cast<void>(cudaFree(first_)); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* first() const { return first_; }
  bool is_there() const { return is_there_; }

 private:
  void* first_ = nullptr;
  bool is_there_;
};

/// Uses the defaults of cuBLAS, and the same values.
void cublas_alone_bf16(benchmark::State& state) {
  const std::shared_ptr<sim::Device> device = device_or_skip(state, gpu::GpuMode::exact);
  if (device == nullptr) return;
  const int n = static_cast<int>(state.range(0));
  const sim::Shape shape = {n, n};
  const auto bytes = static_cast<std::size_t>(shape.count() * sim::size_of(DType::bf16));
  const Block a(bytes), b(bytes), out(bytes);
  cublasHandle_t handle = nullptr;
  if (!a.is_there() || !b.is_there() || !out.is_there() || cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) {
    state.SkipWithError("no memory, or no cuBLAS");
    return;
  }
  for (const auto& [block, seed] : {std::pair{&a, 1U}, {&b, 2U}}) {
    const std::vector<std::byte> values =
        sim::host_bytes(sim::keyed(*device, DType::bf16, shape, sim::KeyedRandom(seed)));
    static_cast<void>(cudaMemcpy(block->first(), values.data(), bytes, cudaMemcpyHostToDevice));
  }
  const float one = 1, zero = 0;
  const auto product = [&] {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b.first(), CUDA_R_16BF, n, a.first(),
                        CUDA_R_16BF, n, &zero, out.first(), CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  };
  bool is_fine = product() == CUBLAS_STATUS_SUCCESS && cudaDeviceSynchronize() == cudaSuccess;
  for (auto _ : state) {
    for (int i = 0; i < kProducts; ++i) is_fine = product() == CUBLAS_STATUS_SUCCESS && is_fine;
    is_fine = cudaDeviceSynchronize() == cudaSuccess && is_fine;
  }
  if (!is_fine) state.SkipWithError("cuBLAS failed");
  static_cast<void>(cublasDestroy(handle));
  count_terms(state);
}

BENCHMARK(exact_f32)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(exact_f64)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(exact_bf16)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(vendor_f32)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(vendor_bf16)->Arg(4096)->Arg(8192)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(cublas_alone_bf16)->Arg(4096)->Arg(8192)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
