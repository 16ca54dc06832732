#include "verify/full_size/full_size_training.h"

#include <algorithm>
#include <utility>

#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/step_work.h"
#include "verify/requests/schedule_request.h"
#include "verify/vocabulary/padded_vocabulary.h"

namespace verify {

namespace {

/// The base of rotary positions. No call depends on it.
constexpr std::int64_t kRotaryBase = 10'000;

std::optional<sim::LatentSizes> latent_sizes(const ModelShape& shape) {
  if (!shape.latent) return std::nullopt;
  return sim::LatentSizes{.q_lora_rank = shape.latent->q_lora_rank,
                          .kv_lora_rank = shape.latent->kv_lora_rank,
                          .qk_head_dim = shape.latent->qk_head_dim,
                          .qk_pos_emb_head_dim = shape.latent->qk_pos_emb_head_dim,
                          .v_head_dim = shape.latent->v_head_dim,
                          .rotary_base = kRotaryBase};
}

sim::GptConfig model_of(const ScenarioRequest& request) {
  const ModelShape& shape = *request.model.shape;
  const int tp = request.layout.tp;
  return {.dtype = request.state.parameter == 2 ? sim::DType::bf16 : sim::DType::f32,
          .num_layers = shape.num_layers,
          .hidden_size = shape.hidden_size,
          .ffn_hidden_size = shape.ffn_hidden_size,
          .num_attention_heads = shape.num_attention_heads,
          .num_query_groups = shape.num_query_groups,
          .kv_channels = shape.head_size(),
          .seq_length = shape.seq_length,
          .micro_batch_size = request.batch.micro_batch_size,
          .context_parallel_size = request.layout.cp,
          .cp_comm_types = request.model.cp_comm_types,
          .vocab_size = shape.vocab_size,
          .padded_vocab_size = *padded_vocabulary(shape.vocab_size, tp, shape.make_vocab_size_divisible_by),
          .rotary_base = shape.learned_positions ? 0 : kRotaryBase,
          .normalization = shape.rms_norm ? sim::Norm::rms_norm : sim::Norm::layer_norm,
          .activation = shape.gated_mlp ? sim::Activation::silu : sim::Activation::gelu_tanh,
          .gated = shape.gated_mlp,
          .bias = shape.linear_bias,
          .add_qkv_bias = shape.add_qkv_bias,
          .qk_layernorm = shape.qk_norm,
          .latent = latent_sizes(shape),
          .untie_embeddings_and_output_weights = shape.untied_output,
          .sequence_parallel = request.model.sequence_parallel && tp > 1,
          .recompute = request.training.recompute,
          .experts = full_size_experts(request)};
}

}  // namespace

int inner_cp(const ScenarioRequest& request) {
  const auto& levels = request.model.hierarchical_context_parallel_sizes;
  return levels.empty() ? 1 : static_cast<int>(levels.front());
}

FullSizeAnswer can_run_full_size(const ScenarioRequest& request) {
  if (!request.model.shape || !request.batch.global_batch_size || !request.placement) return {};
  if (request.pipeline.forward_only || !request.not_proved.training.empty()) return {};
  if (std::string reason = why_no_step_work(request); !reason.empty()) return {true, std::move(reason)};
  if (request.memory.recompute == RecomputeMethod::modules || !request.memory.modules.empty())
    return {true, "of the kinds of recomputation, that of whole layers alone is run at full size"};
  return {true, ""};
}

std::vector<std::string> left_out_of_step(const ScenarioRequest& request) {
  std::vector<std::string> names;
  if (has_experts(request) && request.model.shape->linear_bias) names.emplace_back("the biases of routers");
  if (request.training.overlap_grad_reduce && request.schedule && request.schedule->shape.chunks() > 1)
    names.emplace_back("a gradient buffer for each chunk, in whose place a rank has one");
  names.insert(names.end(), request.not_modelled.begin(), request.not_modelled.end());
  return names;
}

std::optional<std::int64_t> bucket_size(const ScenarioRequest& request, int pipeline_rank) {
  if (!request.training.overlap_grad_reduce || pipeline_rank > 0) return std::nullopt;
  const std::int64_t replicas = std::int64_t{request.layout.dp} * request.layout.cp;
  return request.training.ddp_bucket_size.value_or(std::max<std::int64_t>(40'000'000, 1'000'000 * replicas));
}

void run_full_size_step(sim::Rank& rank, const sim::GptTrainingConfig& config,
                        const std::function<void()>& after_passes) {
  const auto length = static_cast<std::size_t>(config.model.seq_length);
  const sim::Sample sample{std::vector<std::int32_t>(length, 0), std::vector<std::int32_t>(length, 0)};
  sim::GptTraining training(rank, config, [&](std::int64_t) { return sample; });
  training.forward_backward(0);
  after_passes();
  training.finalize_model_grads();
  training.update({1, 1000});
  if (config.optimizer.overlap_param_gather) training.optimizer().finish_param_gather();
}

sim::GptTrainingConfig full_size_training(const ScenarioRequest& request, int pipeline_rank) {
  sim::PipelineShape pipeline;
  pipeline.num_microbatches = microbatches_of_batch(request.batch, request.layout.dp);
  sim::ScheduleFunction schedule = sim::no_pipelining;
  if (request.schedule) {
    pipeline = request.schedule->shape;
    schedule = request.schedule->schedule.function;
  }
  return {.model = model_of(request),
          .placement = *request.placement,
          .pipeline = pipeline,
          .schedule = schedule,
          .data_parallel = {.bucket_size = bucket_size(request, pipeline_rank),
                            .distributed_optimizer = request.state.is_distributed,
                            .overlap_grad_reduce = request.training.overlap_grad_reduce,
                            .per_token_loss = request.training.calculate_per_token_loss},
          .optimizer = {
              .clip_grad = {1, 1},
              .overlap_param_gather = request.training.overlap_param_gather && request.state.is_distributed}};
}

}  // namespace verify
