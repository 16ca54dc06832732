// Measures what a virtual world costs, with checks, records and ledger on: the bandwidth of a large
// all_reduce against memcpy, the latency of small ones, cold worlds, and very large worlds.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/process_end.h"
#include "sim/world/simulate.h"
#include "tests/benchmarks/repeated.h"

namespace {

using namespace sim;
using benchmarks::run;

constexpr std::int64_t kMebibyte = 1 << 20;

/// Copies 256 MiB, shared by the threads. The bytes count both reading and writing.
void memcpy_256_mib(benchmark::State& state) {
  const auto threads = static_cast<std::size_t>(state.range(0));
  const std::size_t bytes = 256 * kMebibyte;
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  for (auto _ : state) {
    std::vector<std::thread> helpers;
    const auto copy = [&](std::size_t part) {
      const std::size_t share = bytes / threads;
      std::memcpy(to.data() + part * share, from.data() + part * share, share);
    };
    for (std::size_t part = 1; part < threads; ++part) helpers.emplace_back(copy, part);
    copy(0);
    for (std::thread& helper : helpers) helper.join();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}
BENCHMARK(memcpy_256_mib)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// An all_reduce of so many bytes on each of 8 ranks. The bytes count that each rank's buffer is read and
/// written. Setting up the world is not timed.
void all_reduce_of(benchmark::State& state, std::int64_t bytes, int threads) {
  constexpr int kRanks = 8;
  CpuDevice device;
  WorldSpec spec = world_of(kRanks);
  spec.threads = threads;
  const auto program = [&](Rank& rank) {
    const Tensor x = filled(rank.device, DType::f32, {bytes / 4}, 0);
    benchmarks::repeat(state, rank, [&] { rank.groups.world().all_reduce(x, ReduceOp::sum, "all_reduce"); });
  };
  run(spec, device, program);
  state.SetBytesProcessed(state.iterations() * 2 * kRanks * bytes);
  benchmarks::count_each(state, static_cast<double>(kRanks * bytes) / 1024);
}
void all_reduce_64_mib(benchmark::State& state) {
  all_reduce_of(state, 64 * kMebibyte, static_cast<int>(state.range(0)));
}
void all_reduce_bytes(benchmark::State& state) { all_reduce_of(state, state.range(0), 1); }
BENCHMARK(all_reduce_bytes)
    ->Name("growth/all_reduce_bytes/ours")
    ->RangeMultiplier(4)
    ->Range(1024, 64 * kMebibyte)
    ->Apply(benchmarks::as_growth);
BENCHMARK(all_reduce_64_mib)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Measures one all_reduce of 1 KiB of f32 over all ranks, in a world that makes many of them. The stacks are
/// those of earlier worlds, as in a campaign, and as the bare work has them; cold_world measures new ones.
void all_reduce_1_kib(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const int calls = benchmarks::calls_in_world(ranks);
  CpuDevice device;
  WorldSpec spec = world_of(ranks);
  spec.threads = static_cast<int>(state.range(1));
  spec.stacks = std::make_shared<StackPool>(kDefaultStackBytes, ranks <= kMostGuardedRanks,
                                            static_cast<std::size_t>(ranks));
  for (auto _ : state) {
    run(spec, device, [&](Rank& rank) {
      const Tensor x = filled(rank.device, DType::f32, {256}, 0);
      for (int call = 0; call < calls; ++call) rank.groups.world().all_reduce(x, ReduceOp::sum, "all_reduce");
    });
  }
  state.counters["a_call"] = benchmark::Counter(static_cast<double>(state.iterations()) * calls,
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  benchmarks::count_each(state, static_cast<double>(calls) * ranks);
}
BENCHMARK(all_reduce_1_kib)->ArgsProduct({{8, 64, 1024}, {1}})->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(all_reduce_1_kib)
    ->Name("growth/all_reduce_ranks/ours")
    ->ArgsProduct({benchmark::CreateRange(2, 131072, 4), {1}})
    ->Apply(benchmarks::as_growth);

/// Measures a whole world of a few ranks that make three calls each, as those of small cases do.
void small_world(benchmark::State& state) {
  CpuDevice device;
  const ProcessEndWatch watch;
  WorldSpec spec = world_of(static_cast<int>(state.range(0)));
  spec.stacks = std::make_shared<StackPool>(kDefaultStackBytes, true, 16);
  spec.reproduce = "benchmarks";
  for (auto _ : state) {
    run(spec, device, [](Rank& rank) {
      const Tensor x = filled(rank.device, DType::f32, {64}, 0);
      for (int call = 0; call < 3; ++call) rank.groups.world().all_reduce(x, ReduceOp::sum, "all_reduce");
      rank.publish("x", x);
    });
  }
}
BENCHMARK(small_world)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

void cold_world(benchmark::State& state) {
  const WorldSpec spec = world_of(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    CpuDevice device;
    run(spec, device, [](Rank& rank) { rank.groups.world().barrier("barrier"); });
  }
  benchmarks::count_each(state, static_cast<double>(state.range(0)));
}
BENCHMARK(cold_world)->Arg(1024)->Arg(16384)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold_world)
    ->Name("growth/cold_world/ours")
    ->RangeMultiplier(4)
    ->Range(2, 131072)
    ->Apply(benchmarks::as_growth);

/// Returns the resident memory of this process in bytes.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

void large_world(benchmark::State& state) {
  const WorldSpec spec{.layout = make_layout({.world_size = state.range(0), .tensor_model_parallel_size = 8},
                                             RuleBook::megatron)};
  std::int64_t most = 0;
  for (auto _ : state) {
    CpuDevice device;
    run(spec, device, [&](Rank& rank) {
      const Tensor x = filled(rank.device, DType::f32, {256}, 0);
      rank.groups.get("tp").all_reduce(x, ReduceOp::sum, "all_reduce");
      rank.groups.world().barrier("barrier");
      if (rank.id == 0) most = std::max(most, resident_bytes());
    });
  }
  state.counters["resident_MiB"] = static_cast<double>(most / kMebibyte);
}
BENCHMARK(large_world)->Arg(131072)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

/// Measures a world of ranks that do nothing but wait.
void idle_ranks(benchmark::State& state) {
  const WorldSpec spec = world_of(static_cast<int>(state.range(0)));
  const std::int64_t before = resident_bytes();
  std::int64_t most = 0;
  for (auto _ : state) {
    CpuDevice device;
    run(spec, device, [&](Rank& rank) {
      rank.groups.world().barrier("barrier");
      if (rank.id == 0) most = std::max(most, resident_bytes());
    });
  }
  state.counters["KiB_a_rank"] =
      static_cast<double>(most - before) / 1024 / static_cast<double>(state.range(0));
}
BENCHMARK(idle_ranks)->Arg(65536)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
