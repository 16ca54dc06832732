// Measures what a layout costs: a whole training step of a GPT on tp 2, pp 2, dp 2 virtual ranks against
// the same step, of the same samples, on one rank, with the same kernels. CPU time is that of all threads.
// The targets are at most 1.25 times the cost of the one rank, and 0.7 of the time with a second thread.

#include <benchmark/benchmark.h>

#include "sim/cpu/cpu_device.h"
#include "tests/benchmarks/whole_step.h"

namespace {

void training_step(benchmark::State& state) {
  sim::CpuDevice device;
  benchmarks::measure_step(state, device, {}, static_cast<int>(state.range(0)),
                           static_cast<int>(state.range(1)));
}
BENCHMARK(training_step)
    ->ArgNames({"ranks", "threads"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 2})
    ->Iterations(2)
    ->Apply(benchmarks::in_cpu_and_wall_time);

}  // namespace
