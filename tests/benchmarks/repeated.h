#pragma once

/// What benchmarks share. Most of it is a benchmark of what ranks do within one world, whose set-up, cold
/// memory and end are not timed.
///
/// Calls   Every rank of the world calls repeat() with its step. The first step is not timed. The time of a
///         step ends when the last rank is through.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>

#include "sim/base/check.h"
#include "sim/world/simulate.h"

namespace benchmarks {

inline void run(const sim::WorldSpec& spec, sim::Device& device, const sim::RankProgram& program) {
  const sim::RunReport report = sim::simulate(spec, device, program);
  if (!report.ok()) std::fputs(report.failure().c_str(), stderr);
  SIM_CHECK(report.ok());
  benchmark::DoNotOptimize(report.run_hash);
}

/// Whether there is another step. Rank 0 asks the benchmark and tells the others.
inline bool goes_on(benchmark::State& state, sim::Rank& rank) {
  const bool asked = rank.id == 0 && state.KeepRunning();
  const sim::Tensor answer = sim::filled(rank.device, sim::DType::i32, {1}, asked ? 1 : 0);
  rank.groups.world().broadcast(answer, 0, "goes_on");
  return sim::host_bytes(answer).front() != std::byte{0};
}

/// Reports the seconds that one item of an iteration takes, as counter "each".
inline void count_each(benchmark::State& state, double items) {
  state.counters["each"] =
      benchmark::Counter(items, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Sets three repetitions of a point of growth.
inline void as_growth(benchmark::internal::Benchmark* benchmark) {
  benchmark->Repetitions(3)->ReportAggregatesOnly()->Unit(benchmark::kMillisecond);
}

/// Returns the number of calls that each rank of a world of so many ranks makes in one iteration.
inline int calls_in_world(int ranks) {
  constexpr int kMost = 200, kAll = 200 * 1024;
  return std::clamp(kAll / ranks, 2, kMost);
}

/// Sets nine repetitions, and reports the CPU time of all threads beside the wall time.
inline void in_cpu_and_wall_time(benchmark::internal::Benchmark* benchmark) {
  benchmark->Repetitions(9)->MeasureProcessCPUTime()->UseRealTime()->ReportAggregatesOnly()->Unit(
      benchmark::kMillisecond);
}

template <typename Step>
void repeat(benchmark::State& state, sim::Rank& rank, const Step& step) {
  sim::Communicator& world = rank.groups.world();
  step();
  for (world.barrier("ready"); goes_on(state, rank); world.barrier("through")) step();
}

}  // namespace benchmarks
