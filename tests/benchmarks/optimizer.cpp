// Measures what ZeRO-1 costs: the range maps of a large model, and a step on eight virtual ranks against
// Adam on one. The targets are 0.2 s for the maps of 175 billion parameters over 1,024 ranks, and a step
// in 1.5 times that of one rank with two copies of the buffer.

#include <benchmark/benchmark.h>
#include <cstdint>
#include <vector>

#include "sim/base/check.h"
#include "sim/cpu/cpu_device.h"
#include "sim/optimizer/distributed_optimizer.h"
#include "tests/benchmarks/repeated.h"
#include "tests/support/counted_traffic.h"

namespace {

using namespace sim;

/// GPT-3: 96 layers, hidden size 12,288, vocabulary 51,200, sequences of 2,048.
std::vector<BufferParameter> gpt_175b() {
  constexpr std::int64_t h = 12'288;
  std::vector<BufferParameter> parameters = {{51'200 * h, true}, {2'048 * h}};
  for (int layer = 0; layer < 96; ++layer) {
    for (const std::int64_t size : {h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h})
      parameters.push_back({size});
  }
  parameters.insert(parameters.end(), {{h}, {h}});
  return parameters;
}

/// Measures the maps of every piece of every rank.
void range_maps(benchmark::State& state) {
  const std::vector<BufferParameter> parameters = gpt_175b();
  const BufferConfig config{.owners = 1'024, .bucket_size = 1'024'000'000};
  std::int64_t owned = 0, pieces = 0;
  for (auto _ : state) {
    owned = pieces = 0;
    const BufferLayout layout = buffer_layout(parameters, config);
    for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket) {
      for (int rank = 0; rank < config.owners; ++rank) {
        for (const OwnedPiece& piece : owned_pieces(layout, bucket, rank)) {
          owned += piece.param.size();
          ++pieces;
        }
      }
    }
  }
  std::int64_t all = 0;
  for (const BufferParameter& parameter : parameters) all += parameter.elements;
  SIM_CHECK(owned == all);
  state.counters["pieces"] = static_cast<double>(pieces);
}
BENCHMARK(range_maps)->Unit(benchmark::kMillisecond);

constexpr std::int64_t kElements = 16 << 20;

/// One f32 parameter of so many elements.
struct ZeroStep {
  ZeroStep(Rank& rank, std::int64_t elements)
      : parameter(make_parameter(rank, "p", DType::f32, {elements}, {}, {})),
        data_parallel(rank, {{&parameter}}, {}),
        optimizer(rank, data_parallel, {}) {}
  void run() {
    data_parallel.zero_grads();
    data_parallel.grad_ready(parameter);
    data_parallel.finish_grad_sync();
    optimizer.step({1, 1000});
  }
  Parameter parameter;
  DistributedDataParallel data_parallel;
  DistributedOptimizer optimizer;
};

/// Counts the bytes of memory that a step moves, and sets them beside reading and writing each buffer once:
/// gradients and values of every rank, and the two moments.
void count_traffic(benchmark::State& state, int ranks) {
  test::CountedTraffic device;
  std::int64_t before = 0;
  benchmarks::run(world_of(ranks), device, [&](Rank& rank) {
    ZeroStep step(rank, kElements);
    rank.groups.world().barrier("made");
    before = device.traffic().moved();
    rank.groups.world().barrier("begins");
    step.run();
  });
  const std::int64_t moved = device.traffic().moved() - before;
  const std::int64_t once = 2 * (2 * ranks + 2) * kElements * size_of(DType::f32);
  state.counters["moved_MiB"] = static_cast<double>(moved) / (1 << 20);
  state.counters["moved_of_once"] = static_cast<double>(moved) / static_cast<double>(once);
}

void measure_steps(benchmark::State& state, int ranks, std::int64_t elements) {
  CpuDevice device;
  benchmarks::run(world_of(ranks), device, [&](Rank& rank) {
    ZeroStep step(rank, elements);
    benchmarks::repeat(state, rank, [&] { step.run(); });
  });
}

/// Measures the reduction, the step and the gather on several ranks.
void zero_step(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  measure_steps(state, ranks, kElements);
  count_traffic(state, ranks);
}

/// The arguments are the bytes of the parameter and the ranks.
void growing_step(benchmark::State& state) {
  const std::int64_t elements = state.range(0) / size_of(DType::f32);
  measure_steps(state, static_cast<int>(state.range(1)), elements);
  benchmarks::count_each(state, static_cast<double>(elements) / 1024);
}
BENCHMARK(growing_step)
    ->Name("growth/zero_step/8 ranks")
    ->ArgsProduct({benchmark::CreateRange(1 << 20, 64 << 20, 4), {8}})
    ->Apply(benchmarks::as_growth);
BENCHMARK(growing_step)
    ->Name("growth/zero_step/one rank")
    ->ArgsProduct({benchmark::CreateRange(1 << 20, 64 << 20, 4), {1}})
    ->Apply(benchmarks::as_growth);

BENCHMARK(zero_step)
    ->ArgName("dp")
    ->Arg(1)
    ->Arg(8)
    ->Iterations(3)
    ->Repetitions(5)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->ReportAggregatesOnly()
    ->Unit(benchmark::kMillisecond);

/// Measures one copy of the gradients and one of the parameters.
void two_copies(benchmark::State& state) {
  CpuDevice device;
  const Tensor from = filled(device, DType::f32, {kElements}, 1);
  Tensor grads = filled(device, DType::f32, {kElements}, 2),
         values = filled(device, DType::f32, {kElements}, 3);
  for (auto _ : state) {
    copy(from, grads);
    copy(from, values);
  }
}
BENCHMARK(two_copies)->Unit(benchmark::kMillisecond);

}  // namespace
