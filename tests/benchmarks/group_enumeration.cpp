// Measures the enumeration of every kind of group of a world of 1,048,576 ranks, member by member, on
// one core.

#include <benchmark/benchmark.h>
#include <cstdint>
#include <span>
#include <sys/resource.h>

#include "sim/layout/layout.h"

namespace {

sim::ParallelSizes million_ranks() {
  sim::ParallelSizes sizes;
  sizes.world_size = 1'048'576;
  sizes.tensor_model_parallel_size = 8;
  sizes.context_parallel_size = 2;
  sizes.pipeline_model_parallel_size = 16;
  sizes.expert_model_parallel_size = 16;
  sizes.expert_tensor_parallel_size = 1;
  return sizes;
}

void enumerate_all_kinds(benchmark::State& state) {
  std::int64_t members_seen = 0;
  for (auto _ : state) {
    const sim::Layout layout = sim::make_layout(million_ranks(), sim::RuleBook::megatron);
    members_seen = 0;
    std::int64_t sum = 0;
    for (const sim::GroupKind& kind : layout.kinds) {
      kind.for_each_group([&](int, std::span<const int> members) {
        for (const int rank : members) sum += rank;
        members_seen += static_cast<std::int64_t>(members.size());
      });
    }
    benchmark::DoNotOptimize(sum);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["members"] = static_cast<double>(members_seen);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;  // the peak of the whole process
}
BENCHMARK(enumerate_all_kinds)->Unit(benchmark::kMillisecond)->Repetitions(9)->ReportAggregatesOnly();

}  // namespace
