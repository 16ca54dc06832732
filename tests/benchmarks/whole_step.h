#pragma once

/// A whole training step of a GPT on tp 2, pp 2, dp 2 virtual ranks, and the same step, of the same samples,
/// on one rank, with the same kernels: what a layout costs on a device.
///
/// Shapes  a model has 8 layers, hidden size H, feed-forward size 4 H, and heads of 32 elements; a sample has
///         seq_length tokens, and a step has 2 m microbatches of micro_batch_size samples, where m is
///         `microbatches`.
/// Calls   Every rank waits for its device at the end of a step.

#include <cstdint>

#include "sim/base/keyed_random.h"
#include "sim/layout/layout.h"
#include "sim/model/gpt_training.h"
#include "sim/pipeline/schedules.h"
#include "sim/tensor/ops.h"
#include "tests/benchmarks/repeated.h"

namespace benchmarks {

struct StepSizes {
  sim::DType dtype = sim::DType::f32;
  std::int64_t hidden_size = 256;
  std::int64_t seq_length = 128;
  std::int64_t micro_batch_size = 1;
  std::int64_t vocab_size = 256;
  std::int64_t microbatches = 8;  // microbatches of each of the two replicas
};

inline sim::GptTrainingConfig config_of(const StepSizes& sizes, int pp, std::int64_t microbatches) {
  constexpr std::int64_t kLayers = 8, kHeadSize = 32;
  return {.model = {.dtype = sizes.dtype,
                    .num_layers = kLayers,
                    .hidden_size = sizes.hidden_size,
                    .ffn_hidden_size = 4 * sizes.hidden_size,
                    .num_attention_heads = sizes.hidden_size / kHeadSize,
                    .num_query_groups = sizes.hidden_size / kHeadSize,
                    .kv_channels = kHeadSize,
                    .seq_length = sizes.seq_length,
                    .micro_batch_size = sizes.micro_batch_size,
                    .vocab_size = sizes.vocab_size,
                    .padded_vocab_size = sizes.vocab_size,
                    .initial = {.scale = {1, 16}},
                    .norm_initial = {.scale = {0, 1}, .center = {1, 1}}},
          .placement = sim::place_layers({.num_layers = kLayers, .pipeline_model_parallel_size = pp}),
          .pipeline = {.pipeline_model_parallel_size = pp, .num_microbatches = microbatches},
          .schedule = sim::one_forward_one_backward,
          .data_parallel = {.distributed_optimizer = true, .overlap_grad_reduce = true},
          .optimizer = {.weight_decay = {1, 10}, .clip_grad = {1, 1}, .overlap_param_gather = true}};
}

inline sim::Sample sample_of(const StepSizes& sizes, std::int64_t number) {
  sim::Sample drawn;
  const sim::KeyedRandom random = sim::KeyedRandom(7).named("sample");
  const std::int64_t words = sizes.seq_length + 1;
  for (std::int64_t i = 0; i < words; ++i) {
    const auto id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(number * words + i),
                                                           static_cast<std::uint32_t>(sizes.vocab_size)));
    if (i < sizes.seq_length) drawn.tokens.push_back(id);
    if (i > 0) drawn.labels.push_back(id);
  }
  return drawn;
}

/// Measures a step on 8 ranks or on one.
inline void measure_step(benchmark::State& state, sim::Device& device, const StepSizes& sizes, int ranks,
                         int threads) {
  const bool is_whole = ranks == 1;
  const int size = is_whole ? 1 : 2;
  sim::WorldSpec spec{
      .layout = sim::make_layout(
          {.world_size = ranks, .tensor_model_parallel_size = size, .pipeline_model_parallel_size = size},
          sim::RuleBook::megatron)};
  spec.threads = threads;
  run(spec, device, [&](sim::Rank& rank) {
    sim::GptTraining training(rank,
                              config_of(sizes, size, is_whole ? 2 * sizes.microbatches : sizes.microbatches),
                              [&](std::int64_t number) { return sample_of(sizes, number); });
    std::int64_t iteration = 0;
    repeat(state, rank, [&] {
      training.step(iteration++, {1, 1000});
      benchmark::DoNotOptimize(sim::host_bytes(sim::filled(rank.device, sim::DType::i32, {1}, 0)).data());
    });
    training.optimizer().finish_param_gather();
  });
}

}  // namespace benchmarks
