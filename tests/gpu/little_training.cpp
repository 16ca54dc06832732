#include "tests/gpu/little_training.h"

#include "sim/pipeline/schedules.h"

namespace test {

using namespace sim;

namespace {

Sample sample_of(std::int64_t number) {
  Sample sample;
  for (std::int64_t i = 0; i < 6; ++i) {
    sample.tokens.push_back(static_cast<std::int32_t>((number * 7 + i * 5) % 21));
    sample.labels.push_back(static_cast<std::int32_t>((number * 7 + (i + 1) * 5) % 21));
  }
  return sample;
}

}  // namespace

GptTrainingConfig little_gpt(DType dtype, int pp, int microbatches) {
  GptTrainingConfig config = {
      .model = {.dtype = dtype,
                .num_layers = 2 * pp,
                .hidden_size = 16,
                .ffn_hidden_size = 24,
                .num_attention_heads = 4,
                .num_query_groups = 2,
                .kv_channels = 4,
                .seq_length = 6,
                .micro_batch_size = 2,
                .vocab_size = 21,
                .padded_vocab_size = 24},
      .placement = place_layers({.num_layers = 2 * pp, .pipeline_model_parallel_size = pp}),
      .pipeline = {.pipeline_model_parallel_size = pp, .num_microbatches = microbatches},
      .schedule = one_forward_one_backward};
  config.optimizer.clip_grad = {1, 2};
  config.optimizer.weight_decay = {1, 100};
  return config;
}

void train(Rank& rank, const GptTrainingConfig& config) {
  GptTraining training(rank, config, sample_of);
  for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
    const GptTraining::Result result = training.step(iteration, {1, 50});
    if (!result.loss.is_none()) rank.publish("loss", result.loss);
  }
  for (const Parameter* parameter : training.parameters()) {
    rank.publish(parameter->name, parameter->value);
    rank.publish(parameter->name + ".grad", parameter->main_grad);
  }
  for (const DistributedOptimizer::Piece& piece : training.optimizer().pieces()) {
    rank.publish("main", piece.main);
    rank.publish("exp_avg", piece.exp_avg);
    rank.publish("exp_avg_sq", piece.exp_avg_sq);
  }
}

}  // namespace test
