#include "verify/full_size/full_size_training.h"

#include <algorithm>
#include <utility>

#include "verify/full_size/step_work.h"
#include "verify/options/padded_vocabulary.h"
#include "verify/options/schedule_request.h"

namespace verify {

namespace {

/// The base of rotary positions. No call depends on it.
constexpr std::int64_t kRotaryBase = 10'000;

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
          .untie_embeddings_and_output_weights = shape.untied_output,
          .sequence_parallel = request.model.sequence_parallel && tp > 1,
          .recompute = request.training.recompute};
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

std::int64_t default_bucket_size(const sim::Layout& layout) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * layout.dp * layout.cp);
}

sim::GptTrainingConfig full_size_training(const ScenarioRequest& request) {
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
          .data_parallel = {.bucket_size = default_bucket_size(request.layout),
                            .distributed_optimizer = request.state.is_distributed,
                            .overlap_grad_reduce = false,
                            .per_token_loss = request.training.calculate_per_token_loss},
          .optimizer = {.clip_grad = {1, 1}}};
}

}  // namespace verify
