// Measures what sharding costs: a layer on tp virtual ranks against the same layer on one, with the same
// kernels, a layer of experts on ep ranks, or attention around a ring of cp ranks. CPU time is that of all
// threads. The targets are that the MLP costs at most 1.15 times the serial one, cross-entropy and the ring
// at most 1.30 times and experts at most 1.25 times, and that a second thread takes the MLP's time to 0.65.

#include <array>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/context/core_attention.h"
#include "sim/cpu/cpu_device.h"
#include "sim/experts/moe_layer.h"
#include "sim/parallel/mlp.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"
#include "tests/benchmarks/repeated.h"

namespace {

using namespace sim;

constexpr std::int64_t kTokens = 256;

/// A world of tp ranks, on the given number of threads.
WorldSpec tensor_parallel_world(const benchmark::State& state) {
  WorldSpec spec{.layout = make_layout({.world_size = state.range(0),
                                        .tensor_model_parallel_size = static_cast<int>(state.range(0))},
                                       RuleBook::megatron)};
  spec.threads = static_cast<int>(state.range(1));
  return spec;
}

/// Measures forward and backward of an MLP of the size that GPT-2 medium has.
void mlp(benchmark::State& state) {
  CpuDevice device;
  benchmarks::run(tensor_parallel_world(state), device, [&](Rank& rank) {
    Mlp layer(rank, {.name = "mlp", .hidden_size = 1024, .ffn_hidden_size = 4096, .initial = {{1, 32}}});
    const Tensor x = keyed(rank.device, DType::f32, {kTokens, 1024}, rank.random.named("x"));
    const Tensor grad = keyed(rank.device, DType::f32, {kTokens, 1024}, rank.random.named("grad"));
    benchmarks::repeat(state, rank, [&] {
      const Mlp::Forward forward = layer.forward(x);
      layer.backward(forward.saved, grad);
    });
  });
}
BENCHMARK(mlp)
    ->ArgNames({"tp", "threads"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 2})
    ->Iterations(3)
    ->Apply(benchmarks::in_cpu_and_wall_time);

Tensor spread_targets(Device& device, std::int64_t vocabulary) {
  std::array<std::int32_t, kTokens> ids = {};
  for (std::size_t t = 0; t < ids.size(); ++t) {
    ids[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t) * vocabulary / kTokens);
  }
  return from_host(device, DType::i32, {kTokens}, std::as_bytes(std::span(ids)));
}

/// Measures forward and backward. The logits are given.
void cross_entropy(benchmark::State& state) {
  constexpr std::int64_t kVocabulary = 32768;
  CpuDevice device;
  benchmarks::run(tensor_parallel_world(state), device, [&](Rank& rank) {
    VocabParallelCrossEntropy layer(rank, {.vocabulary = kVocabulary});
    const Tensor logits = keyed(rank.device, DType::f32, {kTokens, kVocabulary / state.range(0)},
                                rank.random.named("logits"), rank.id * kVocabulary);
    const Tensor targets = spread_targets(rank.device, kVocabulary);
    const Tensor grad = filled(rank.device, DType::f32, {kTokens}, 1);
    benchmarks::repeat(state, rank, [&] {
      const VocabParallelCrossEntropy::Forward forward = layer.forward(logits, targets);
      layer.backward(forward.saved, grad);
    });
  });
}
BENCHMARK(cross_entropy)
    ->ArgNames({"tp", "threads"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 2})
    ->Iterations(20)
    ->Apply(benchmarks::in_cpu_and_wall_time);

/// Measures forward and backward of a layer of 8 experts. Each rank has its part of 512 tokens.
void moe_layer(benchmark::State& state) {
  constexpr std::int64_t kRouted = 512;
  const std::int64_t own = kRouted / state.range(0);
  WorldSpec spec{.layout = make_layout({.world_size = state.range(0),
                                        .expert_model_parallel_size = static_cast<int>(state.range(0))},
                                       RuleBook::megatron)};
  CpuDevice device;
  benchmarks::run(spec, device, [&](Rank& rank) {
    MoeLayer layer(
        rank,
        {.router = {.name = "router",
                    .hidden_size = 512,
                    .num_experts = 8,
                    .routing = {.topk = 2},
                    .initial = {{1, 32}}},
         .experts = {.name = "experts", .hidden_size = 512, .ffn_hidden_size = 1024, .initial = {{1, 32}}},
         .dispatcher = static_cast<TokenDispatcherType>(state.range(1))});
    const auto tokens = [&](const char* name) {
      return keyed(rank.device, DType::f32, {own, 512}, rank.random.named(name), rank.id * own * 512);
    };
    const Tensor x = tokens("x"), grad = tokens("grad");
    benchmarks::repeat(state, rank, [&] {
      const MoeLayer::Forward forward = layer.forward(x);
      layer.backward(forward.saved, grad);
    });
  });
}
BENCHMARK(moe_layer)
    ->ArgNames({"ep", "dispatcher"})
    ->Args({1, 1})
    ->Args({8, 0})
    ->Args({8, 1})
    ->Args({8, 2})
    ->Iterations(3)
    ->Apply(benchmarks::in_cpu_and_wall_time);

/// Measures forward and backward of causal attention over 4,096 rows, of 8 heads of 64 channels, around a
/// ring.
void ring_attention(benchmark::State& state) {
  const int cp = static_cast<int>(state.range(0));
  const WorldSpec spec{.layout =
                           make_layout({.world_size = cp, .context_parallel_size = cp}, RuleBook::megatron)};
  const SequenceCut cut = SequenceCut::of_sequence(4096, cp);
  CpuDevice device;
  benchmarks::run(spec, device, [&](Rank& rank) {
    const auto attention = make_core_attention(rank, {.name = "attention"}, cut, CpCommType::p2p);
    const auto heads = [&](const char* name) {
      return keyed(rank.device, DType::f32, {1, 8, cut.local_length(), 64}, rank.random.named(name));
    };
    const Tensor queries = heads("queries"), keys = heads("keys"), values = heads("values");
    const Tensor grad = heads("grad");
    benchmarks::repeat(state, rank, [&] {
      const CoreAttention::Forward forward = attention->forward(queries, keys, values, 0);
      attention->backward(forward.saved, grad);
    });
  });
}
BENCHMARK(ring_attention)
    ->ArgNames({"cp"})
    ->Arg(1)
    ->Arg(8)
    ->Iterations(1)
    ->Apply(benchmarks::in_cpu_and_wall_time);

}  // namespace
