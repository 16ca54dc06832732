#include "verify/full_size/full_size_training.h"

#include <algorithm>
#include <utility>

#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/step_work.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

/// A window changes no call.
sim::GptConfig model_of(const ScenarioRequest& request) {
  const int tp = request.layout.tp;
  sim::GptConfig model = request.model.config;
  model.dtype = request.state.parameter == 2 ? sim::DType::bf16 : sim::DType::f32;
  model.micro_batch_size = request.batch.micro_batch_size;
  model.context_parallel_size = request.layout.cp;
  model.padded_vocab_size = *padded_vocabulary(model.vocab_size, tp, model.make_vocab_size_divisible_by);
  model.window = {};
  model.sequence_parallel = model.sequence_parallel && tp > 1;
  model.recompute = request.training.recompute;
  model.experts = full_size_experts(request);
  return model;
}

}  // namespace

int inner_cp(const ScenarioRequest& request) {
  const auto& levels = request.model.hierarchical_context_parallel_sizes;
  return levels.empty() ? 1 : static_cast<int>(levels.front());
}

FullSizeAnswer can_run_full_size(const ScenarioRequest& request) {
  if (!request.model.has_shape || !request.batch.global_batch_size || !request.placement) return {};
  if (request.pipeline.forward_only || !request.not_proved.training.empty()) return {};
  if (std::string reason = why_no_step_work(request); !reason.empty()) return {true, std::move(reason)};
  if (repeats_calls(request))
    return {true,
            "modules whose recomputation makes calls (mlp, moe, shared_experts, and core_attn with cp) "
            "are not run at full size"};
  return {true, ""};
}

std::vector<std::string> left_out_of_step(const ScenarioRequest& request) {
  std::vector<std::string> names;
  if (has_experts(request) && request.model.config.bias) names.emplace_back("the biases of routers");
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
