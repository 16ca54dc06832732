// Measures small cases as check runs them: draw inputs, world, layer, reference, comparison. The targets are
// 20,000 cases of a cross-entropy a second on one thread, and in f32 5,000 of a layer of experts and 5,000 of
// attention over context-parallel ranks on two threads.

#include <benchmark/benchmark.h>
#include <cstdint>

#include "sim/base/check.h"
#include "tests/benchmarks/repeated.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace {

using namespace verify;

/// Cross-entropy of 8 tokens and a vocabulary of 64, on 1, 2, 4 and 8 ranks in turn. Every iteration has
/// a seed of its own.
template <typename RanksOf>
void judge_cases(benchmark::State& state, sim::DType dtype, const RanksOf& ranks_of) {
  Bench bench;
  const Case& the_case = *find_case("vocab_parallel_cross_entropy");
  const Property& serial = all_properties().front();
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const int tp = ranks_of(seed);
    CaseSetting setting{.group_size = tp, .dtype = dtype, .seed = seed++};
    setting.dimensions = {
        {"tokens", 8}, {"vocabulary", 64 / tp}, {"padding", 0}, {"ignored", 3}, {"smoothing", 1}};
    const Judgement judgement = serial.judge(bench, the_case, setting);
    SIM_CHECK(judgement.holds);
  }
  state.SetItemsProcessed(state.iterations());
  benchmarks::count_each(state, 1);
}
void small_cases(benchmark::State& state, sim::DType dtype) {
  judge_cases(state, dtype, [](std::uint64_t seed) { return 1 << (seed % 4); });
}
void case_of_ranks(benchmark::State& state) {
  judge_cases(state, sim::DType::f32, [&](std::uint64_t) { return static_cast<int>(state.range(0)); });
}
BENCHMARK(case_of_ranks)
    ->Name("growth/small_case/ours")
    ->RangeMultiplier(2)
    ->Range(1, 64)
    ->Apply(benchmarks::as_growth);
BENCHMARK_CAPTURE(small_cases, f32, sim::DType::f32)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cases, f64, sim::DType::f64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cases, bf16, sim::DType::bf16)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cases, field, sim::DType::field)->Unit(benchmark::kMicrosecond);

/// A layer of 8 experts, of which each of 8 tokens takes two, on 1, 2, 4 and 8 expert-parallel ranks and with
/// all three dispatchers in turn.
void small_moe_cases(benchmark::State& state, sim::DType dtype) {
  Bench bench;
  const Case& the_case = *find_case("moe_layer");
  const Property& serial = all_properties().front();
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const int ep = 1 << (seed % 4);
    const auto dispatcher = static_cast<std::int64_t>(seed % 3);
    CaseSetting setting{.group_size = ep, .dtype = dtype, .seed = seed++};
    setting.dimensions = {{"tp", 1},     {"ep", ep},         {"etp", 1},
                          {"topk", 2},   {"tokens", 8 / ep}, {"local_experts", 8 / ep},
                          {"hidden", 4}, {"ffn", 3},         {"dispatcher", dispatcher},
                          {"score", 0},  {"scaled", 0},      {"groups", 0},
                          {"shared", 0}, {"activation", 0},  {"gated", 0},
                          {"bias", 0}};
    const Judgement judgement = serial.judge(bench, the_case, setting);
    SIM_CHECK(judgement.holds);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(small_moe_cases, f32, sim::DType::f32)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_moe_cases, f64, sim::DType::f64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_moe_cases, bf16, sim::DType::bf16)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_moe_cases, field, sim::DType::field)->Unit(benchmark::kMicrosecond);

/// Causal attention of a sequence of 16 rows on 1, 2, 4 and 8 context-parallel ranks, with all four kinds of
/// communication in turn. The kinds that exchange heads have as many heads as ranks, and the others one.
void small_cp_cases(benchmark::State& state, sim::DType dtype) {
  Bench bench;
  const Case& the_case = *find_case("cp_attention");
  const Property& serial = all_properties().front();
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const int cp = 1 << (seed % 4);
    const auto kind = static_cast<std::int64_t>(seed / 4 % 4);
    CaseSetting setting{.group_size = cp, .dtype = dtype, .seed = seed++};
    setting.dimensions = {{"cp", cp},       {"kind", kind},  {"inner", 2},          {"rows", 8 / cp},
                          {"documents", 1}, {"padding", 0},  {"batch", 1},          {"groups", 1},
                          {"queries", 1},   {"channels", 2}, {"value_channels", 2}, {"causal", 1}};
    const Judgement judgement = serial.judge(bench, the_case, setting);
    SIM_CHECK(judgement.holds);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(small_cp_cases, f32, sim::DType::f32)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cp_cases, f64, sim::DType::f64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cp_cases, bf16, sim::DType::bf16)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(small_cp_cases, field, sim::DType::field)->Unit(benchmark::kMicrosecond);

}  // namespace
