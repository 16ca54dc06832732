// Measures what a layout costs: a whole training step of a GPT on tp 2, pp 2, dp 2 virtual ranks against
// the same step, of the same samples, on one rank, with the same kernels. CPU time is that of all threads.
// The targets are at most 1.25 times the cost of the one rank, and 0.7 of the time with a second thread.

#include <benchmark/benchmark.h>

#include "sim/cpu/cpu_device.h"
#include "sim/model/gpt_training.h"
#include "sim/pipeline/schedules.h"
#include "tests/benchmarks/repeated.h"

namespace {

using namespace sim;

constexpr std::int64_t kMicrobatches = 8;  // microbatches of each of the two replicas

GptTrainingConfig config_of(int pp, std::int64_t microbatches) {
  return {.model = {.dtype = DType::f32,
                    .num_layers = 8,
                    .hidden_size = 256,
                    .ffn_hidden_size = 1024,
                    .num_attention_heads = 8,
                    .num_query_groups = 8,
                    .kv_channels = 32,
                    .seq_length = 128,
                    .micro_batch_size = 1,
                    .vocab_size = 256,
                    .padded_vocab_size = 256,
                    .initial = {.scale = {1, 16}},
                    .norm_initial = {.scale = {0, 1}, .center = {1, 1}}},
          .placement = place_layers({.num_layers = 8, .pipeline_model_parallel_size = pp}),
          .pipeline = {.pipeline_model_parallel_size = pp, .num_microbatches = microbatches},
          .schedule = one_forward_one_backward,
          .data_parallel = {.distributed_optimizer = true, .overlap_grad_reduce = true},
          .optimizer = {.weight_decay = {1, 10}, .clip_grad = {1, 1}, .overlap_param_gather = true}};
}

Sample sample(std::int64_t number) {
  Sample drawn;
  const KeyedRandom random = KeyedRandom(7).named("sample");
  for (std::uint64_t i = 0; i <= 128; ++i) {
    const auto id =
        static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(number) * 1000 + i, 256));
    if (i < 128) drawn.tokens.push_back(id);
    if (i > 0) drawn.labels.push_back(id);
  }
  return drawn;
}

/// Measures a step on 2 x 2 x 2 ranks or on one.
void training_step(benchmark::State& state) {
  const bool is_whole = state.range(0) == 1;
  const int size = is_whole ? 1 : 2;
  WorldSpec spec{.layout = make_layout({.world_size = size * size * size,
                                        .tensor_model_parallel_size = size,
                                        .pipeline_model_parallel_size = size},
                                       RuleBook::megatron)};
  spec.threads = static_cast<int>(state.range(1));
  CpuDevice device;
  benchmarks::run(spec, device, [&](Rank& rank) {
    GptTraining training(rank, config_of(size, is_whole ? 2 * kMicrobatches : kMicrobatches), sample);
    std::int64_t iteration = 0;
    benchmarks::repeat(state, rank, [&] { training.step(iteration++, {1, 1000}); });
    training.optimizer().finish_param_gather();
  });
}
BENCHMARK(training_step)
    ->ArgNames({"ranks", "threads"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({8, 2})
    ->Iterations(2)
    ->Apply(benchmarks::in_cpu_and_wall_time);

}  // namespace
