// Measures what a layout costs on a GPU: a whole training step of a GPT on tp 2, pp 2, dp 2 virtual ranks,
// which share the GPU, against the same step, of the same samples, on one rank, with the same kernels. The
// target is at most 1.3 times the time of the one rank. Without a GPU, each benchmark is skipped and says
// why.

#include <benchmark/benchmark.h>
#include <memory>

#include "tests/benchmarks/gpu_device_or_skip.h"
#include "tests/benchmarks/whole_step.h"

namespace {

void on_gpu(benchmark::State& state, gpu::GpuMode mode, sim::DType dtype) {
  const std::shared_ptr<sim::Device> device = benchmarks::device_or_skip(state, mode);
  if (device == nullptr) return;
  benchmarks::measure_step(state, *device,
                           {.dtype = dtype,
                            .hidden_size = 1024,
                            .seq_length = 512,
                            .micro_batch_size = 4,
                            .vocab_size = 8192,
                            .microbatches = 4},
                           static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
}

void step_exact_f32(benchmark::State& state) { on_gpu(state, gpu::GpuMode::exact, sim::DType::f32); }
void step_vendor_bf16(benchmark::State& state) { on_gpu(state, gpu::GpuMode::vendor, sim::DType::bf16); }

void on_one_and_on_eight(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "threads"})->Args({1, 1})->Args({8, 1})->Args({8, 2});
  benchmark->Iterations(2)->Repetitions(3)->UseRealTime()->ReportAggregatesOnly();
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK(step_exact_f32)->Apply(on_one_and_on_eight);
BENCHMARK(step_vendor_bf16)->Apply(on_one_and_on_eight);

}  // namespace
