#include "tests/gpu/little_training.h"

#include <algorithm>

#include "sim/pipeline/schedules.h"
#include "sim/tensor/ops.h"

namespace test {

using namespace sim;

namespace {

Sample sample_of(std::int64_t number, std::int64_t length) {
  Sample sample;
  for (std::int64_t i = 0; i < length; ++i) {
    sample.tokens.push_back(static_cast<std::int32_t>((number * 7 + i * 5) % 21));
    sample.labels.push_back(static_cast<std::int32_t>((number * 7 + (i + 1) * 5) % 21));
  }
  return sample;
}

/// Adds to the scores of the first two experts more than any score has.
void choose_the_first_two(TopKRouter& router) {
  Tensor first = router.expert_bias().rows(0, 2);
  fill(first, 2);
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

namespace {

Layout layout_with_experts(int ranks) {
  ParallelSizes sizes{.world_size = ranks, .expert_tensor_parallel_size = 1};
  if (ranks >= 2) sizes.tensor_model_parallel_size = sizes.expert_model_parallel_size = 2;
  if (ranks == 4) sizes.expert_tensor_parallel_size = 2;
  if (ranks == 8) sizes.pipeline_model_parallel_size = 2;
  return make_layout(sizes, RuleBook::megatron);
}

GptTrainingConfig little_gpt_with_experts(DType dtype, const Layout& layout, TokenDispatcherType dispatcher) {
  GptTrainingConfig config = little_gpt(dtype, layout.pp, 3);
  config.model.sequence_parallel = layout.tp > 1;
  config.model.bias = false;
  config.model.experts = {
      .num_experts = 4,
      .moe_ffn_hidden_size = 8,
      .routing = {.topk = 2, .score_function = ScoreFunction::sigmoid, .scaling_factor = {3, 2}},
      .expert_bias = true,
      .aux_losses = {{AuxLossKind::seq_aux_loss, {1, 8}}},
      .z_loss_coefficient = Ratio{1, 64},
      .dispatcher = dispatcher,
      .shared_expert_intermediate_size = 8,
      .shared_expert_gate = true};
  return config;
}

std::optional<TokenDispatcherType> dispatcher_of_mode(const std::string& mode) {
  if (mode == "experts-allgather") return TokenDispatcherType::allgather;
  if (mode == "experts-alltoall") return TokenDispatcherType::alltoall;
  if (mode == "experts-flex") return TokenDispatcherType::flex;
  return std::nullopt;
}

Layout layout_with_context(int ranks) {
  ParallelSizes sizes{.world_size = ranks, .context_parallel_size = std::min(ranks, 4)};
  if (ranks >= 2) sizes.hierarchical_context_parallel_sizes = {2, sizes.context_parallel_size / 2};
  if (ranks == 8) sizes.pipeline_model_parallel_size = 2;
  return make_layout(sizes, RuleBook::megatron);
}

GptTrainingConfig little_gpt_with_context(DType dtype, const Layout& layout, CpCommType type) {
  GptTrainingConfig config = little_gpt(dtype, layout.pp, 3);
  config.model.num_query_groups = 4;
  config.model.seq_length = 16;
  config.model.rotary_base = 10000;
  config.model.context_parallel_size = layout.cp;
  config.model.cp_comm_types = {type};
  config.whole_sequence_loss = true;
  return config;
}

std::optional<CpCommType> cp_comm_type_of_mode(const std::string& mode) {
  constexpr std::string_view kPrefix = "context-";
  if (!mode.starts_with(kPrefix)) return std::nullopt;
  return cp_comm_type(std::string_view(mode).substr(kPrefix.size()));
}

}  // namespace

std::optional<LittleTraining> training_of_mode(const std::string& mode, int ranks, DType dtype) {
  if (const auto dispatcher = dispatcher_of_mode(mode)) {
    const Layout layout = layout_with_experts(ranks);
    return LittleTraining{layout, little_gpt_with_experts(dtype, layout, *dispatcher)};
  }
  if (const auto type = cp_comm_type_of_mode(mode)) {
    const Layout layout = layout_with_context(ranks);
    return LittleTraining{layout, little_gpt_with_context(dtype, layout, *type)};
  }
  return std::nullopt;
}

void train(Rank& rank, const GptTrainingConfig& config) {
  GptTraining training(rank, config, [length = config.model.seq_length](std::int64_t number) {
    return sample_of(number, length);
  });
  for (GptModel& chunk : training.chunks()) {
    if (!chunk.routers().empty()) choose_the_first_two(*chunk.routers().back());
  }
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
