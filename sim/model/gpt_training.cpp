#include "sim/model/gpt_training.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/comm/work_parts.h"
#include "sim/experts/host_copies.h"
#include "sim/parallel/sequence_parallel_grads.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

GptTrainingConfig checked(GptTrainingConfig config, int pp) {
  bool fits = std::ssize(config.placement.stages) == pp;
  for (const auto& chunks : config.placement.stages)
    fits = fits && std::ssize(chunks) == config.pipeline.chunks();
  config.model.per_token_loss = config.data_parallel.per_token_loss;
  if (fits) return config;
  refuse({.code = "gpt_training",
          .option = "--pipeline-model-parallel-size",
          .numbers =
              fmt::format("layers are placed on {} pipeline ranks, but the group has {}, with {} chunks each",
                          config.placement.stages.size(), pp, config.pipeline.chunks()),
          .rule = "the placement has every rank of the pipeline, and every chunk of each rank",
          .hint = "a placement made with the sizes of the pipeline"});
}

/// Returns the configuration of the optimizer, which knows whether experts have buffers of their own.
OptimizerConfig optimizer_config(Rank& rank, const GptTrainingConfig& config) {
  OptimizerConfig optimizer = config.optimizer;
  if (config.model.experts.num_experts == 0) return optimizer;
  optimizer.has_experts = expert_grid(rank, config.model.experts.num_experts)
                              .differs_from_dense_grid(rank.groups.get("tp").size());
  return optimizer;
}

std::deque<GptModel> make_chunks(Rank& rank, const GptTrainingConfig& config) {
  const Communicator& pp = rank.groups.get("pp");
  const auto& placed = config.placement.stages[static_cast<std::size_t>(pp.rank())];
  std::deque<GptModel> chunks;
  for (int i = 0; i < std::ssize(placed); ++i) {
    const StageLayers& layers = placed[static_cast<std::size_t>(i)];
    const bool is_first = pp.rank() == 0 && i == 0;
    const bool is_last = pp.rank() + 1 == pp.size() && i + 1 == std::ssize(placed);
    chunks.emplace_back(rank, config.model,
                        GptChunk{.first_layer = layers.offset,
                                 .num_layers = layers.count,
                                 .pre_process = is_first,
                                 .post_process = is_last});
  }
  tie_embeddings(rank, chunks);
  return chunks;
}

std::vector<std::vector<Parameter*>> parameters_by_chunk(std::deque<GptModel>& chunks) {
  std::vector<std::vector<Parameter*>> all;
  for (GptModel& chunk : chunks) all.push_back(chunk.parameters());
  return all;
}

/// Returns the sum of all elements, [1].
Tensor total(const Tensor& x) {
  Tensor sum = filled(x.device(), sum_dtype(x.dtype()), {1}, 0);
  add_column_sums(x.reshaped({x.count(), 1}), sum);
  return sum;
}

Tensor count_of(Device& device, std::int64_t tokens) {
  return device_ids(device, {1}, {static_cast<std::int32_t>(tokens)});
}

}  // namespace

GptTraining::GptTraining(Rank& rank, GptTrainingConfig config, SampleSource source)
    : rank_(rank),
      config_(checked(std::move(config), rank.groups.get("pp").size())),
      source_(std::move(source)),
      pp_(rank.groups.get("pp")),
      chunks_(make_chunks(rank, config_)),
      data_parallel_(rank, parameters_by_chunk(chunks_), config_.data_parallel),
      optimizer_(rank, data_parallel_, optimizer_config(rank, config_)) {}

std::vector<Parameter*> GptTraining::parameters() {
  std::vector<Parameter*> all;
  for (const std::vector<Parameter*>& own : parameters_by_chunk(chunks_))
    all.insert(all.end(), own.begin(), own.end());
  return all;
}

BatchShape GptTraining::batch_shape() const {
  return {.micro_batch_size = config_.model.micro_batch_size,
          .data_parallel_size = rank_.groups.get("dp").size(),
          .num_microbatches = config_.pipeline.microbatches()};
}

// ---- a step -----------------------------------------------------------------------------------------------

GptTraining::Result GptTraining::step(std::int64_t iteration, Ratio learning_rate) {
  forward_backward(iteration);
  finalize_model_grads();
  return update(learning_rate);
}

void GptTraining::forward_backward(std::int64_t iteration) {
  begin_step(rank_, iteration);
  iteration_ = iteration;
  tokens_ = 0;
  loss_ = filled(rank_.device, sum_dtype(config_.model.dtype), {1}, 0);
  data_parallel_.zero_grads();
  const std::int64_t sharers = config_.model.sequence_parallel ? rank_.groups.get("tp").size() : 1;
  const StageTensor wire{.dtype = config_.model.dtype,
                         .shape = {config_.model.tokens() / sharers, config_.model.hidden_size}};
  run_schedule(rank_, pp_, config_.pipeline, config_.schedule(config_.pipeline, pp_.rank()), *this, wire);
}

GptTraining::Result GptTraining::update(Ratio learning_rate) {
  Result result{.loss = {}, .is_skipped = !optimizer_.step(learning_rate)};
  if (!result.is_skipped && config_.optimizer.overlap_param_gather) optimizer_.start_param_gather();
  if (chunks_.back().chunk().post_process) result.loss = reduced_loss();
  return result;
}

Tensor GptTraining::forward(int microbatch, int chunk, const Tensor& input) {
  GptModel& model = chunks_[static_cast<std::size_t>(chunk)];
  if (microbatch == 0) {
    for (const Parameter* parameter : model.parameters()) optimizer_.wait_for(*parameter);
  }
  const std::int64_t sample =
      batch_shape().first_sample(iteration_, microbatch, rank_.groups.get("dp").rank());
  const Microbatch batch = get_batch(rank_, config_.model, source_, sample, model.chunk());
  auto forward = model.forward(input, batch);
  InFlight& kept = in_flight_[{microbatch, chunk}];
  kept.saved = std::move(forward.saved);
  most_in_flight_ = std::max(most_in_flight_, static_cast<int>(in_flight_.size()));
  if (!model.chunk().post_process) return forward.output;
  const std::int64_t tokens = tokens_with_loss(batch.labels);
  tokens_ += tokens;
  kept.divisor = divisor_of_loss(tokens);
  take_loss(forward.output, kept.divisor);
  return {};
}

std::int64_t GptTraining::divisor_of_loss(std::int64_t own_tokens) {
  Communicator& cp = rank_.groups.get("cp");
  if (is_per_token() || !config_.whole_sequence_loss || cp.size() == 1) return own_tokens;
  const Tensor count = count_of(rank_.device, own_tokens);
  cp.all_reduce(count, ReduceOp::sum, "loss_func.tokens");
  return host_ids(count).front();
}

Ratio GptTraining::share_of_token(std::int64_t tokens) const {
  if (is_per_token()) return {1, 1};
  // Gradients are averaged over context-parallel ranks, also those of a loss that is a part of a sum.
  const std::int64_t parts = config_.whole_sequence_loss ? rank_.groups.get("cp").size() : 1;
  return lowest_terms({parts, std::max<std::int64_t>(tokens, 1) * config_.pipeline.microbatches()});
}

Ratio GptTraining::aux_loss_scale() const {
  const Ratio scale = optimizer_.loss_scale();
  if (is_per_token()) return scale;
  const std::int64_t cp = rank_.groups.get("cp").size();
  return lowest_terms({scale.numerator * cp, scale.denominator * config_.pipeline.microbatches()});
}

void GptTraining::take_loss(const Tensor& loss, std::int64_t divisor) {
  add_to(loss_, scale(total(loss), share_of_token(divisor)));
}

Tensor GptTraining::backward(int microbatch, int chunk, const Tensor& grad_output) {
  auto kept = in_flight_.extract({microbatch, chunk});
  GptModel& model = chunks_[static_cast<std::size_t>(chunk)];
  const InFlight& own = kept.mapped();
  if (!model.chunk().post_process) return model.backward(own.saved, grad_output, aux_loss_scale());
  Tensor grad = filled(rank_.device, sum_dtype(config_.model.dtype), {config_.model.tokens()}, 1);
  scale_in_place(grad, share_of_token(own.divisor));
  if (optimizer_.loss_scale().numerator != 1) scale_in_place(grad, optimizer_.loss_scale());
  return model.backward(own.saved, grad, aux_loss_scale());
}

void GptTraining::grads_are_complete(int chunk) {
  // Backward completes the gradients of the last layer first.
  const std::vector<Parameter*> own = chunks_[static_cast<std::size_t>(chunk)].parameters();
  for (auto parameter = own.rbegin(); parameter != own.rend(); ++parameter)
    data_parallel_.grad_ready(**parameter);
}

// ---- after the schedule -----------------------------------------------------------------------------------

void GptTraining::finalize_model_grads() {
  data_parallel_.finish_grad_sync();
  const std::vector<Parameter*> all = parameters();
  all_reduce_sequence_parallel_grads(rank_, all);
  reduce_tied_embeddings();
  update_expert_biases();
  if (is_per_token()) {
    tokens_of_all_ = all_tokens();
    data_parallel_.divide_grads(tokens_of_all_);
  }
}

std::vector<TopKRouter*> GptTraining::routers() {
  std::vector<TopKRouter*> all;
  for (GptModel& chunk : chunks_) {
    const std::vector<TopKRouter*> own = chunk.routers();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void GptTraining::update_expert_biases() {
  const std::vector<TopKRouter*> routers = this->routers();
  for (TopKRouter* router : routers) router->reset_global_aux_loss_tracker();
  update_expert_bias(rank_, routers, config_.model.experts.expert_bias_update_rate);
}

std::int64_t GptTraining::all_tokens() {
  const Tensor count = count_of(rank_.device, tokens_);
  if (pp_.size() > 1) pp_.broadcast(count, pp_.size() - 1, "finalize_model_grads.tokens");
  Communicator& replicas = rank_.groups.get("dp-cp");
  if (replicas.size() > 1) replicas.all_reduce(count, ReduceOp::sum, "finalize_model_grads.sum_tokens");
  return host_ids(count).front();
}

Tensor GptTraining::reduced_loss() {
  Communicator& replicas = rank_.groups.get("dp-cp");
  if (replicas.size() > 1) replicas.all_reduce(loss_, ReduceOp::sum, "training_log.loss");
  return scale(loss_, {1, is_per_token() ? std::max<std::int64_t>(tokens_of_all_, 1) : replicas.size()});
}

// ---- checkpoints ------------------------------------------------------------------------------------------

std::vector<CheckpointBuffer> GptTraining::expert_biases() {
  std::vector<CheckpointBuffer> all;
  for (TopKRouter* router : routers()) {
    if (router->config().expert_bias)
      all.push_back({router->config().name + ".expert_bias", router->expert_bias()});
  }
  return all;
}

void GptTraining::save(CheckpointStore& store, std::int64_t iteration) {
  save_checkpoint(rank_, optimizer_, store, iteration, expert_biases());
}

std::int64_t GptTraining::load(CheckpointStore& store) {
  return load_checkpoint(rank_, optimizer_, store, expert_biases());
}

}  // namespace sim
