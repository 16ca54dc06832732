#include "verify/checks/activation_memory.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"

namespace verify {

namespace {

constexpr std::int64_t kMask = 1, kLogit = 4;  // bytes

/// Returns the share of one rank: with sequence parallelism a tp-th of `bytes`, else all of them.
std::int64_t of_rank(const ActivationShape& shape, std::int64_t bytes) {
  return shape.sequence_parallel ? bytes / shape.tp : bytes;
}

std::int64_t embedding_bytes(const ActivationShape& shape) {
  return of_rank(shape, kMask * shape.model.hidden_size * shape.tokens);
}

std::int64_t output_bytes(const ActivationShape& shape) {
  const std::int64_t inputs = 2 * shape.element_bytes * shape.model.hidden_size * shape.tokens;
  return of_rank(shape, inputs) + kLogit * shape.padded_vocab_size / shape.tp * shape.tokens;
}

std::int64_t layers_with_experts(const ModelShape& model, const sim::StageLayers& chunk) {
  if (model.experts.num_experts == 0) return 0;
  const LayerPattern& pattern = model.experts.moe_layer_freq;
  return layers_with_experts(pattern, chunk.offset + chunk.count) -
         layers_with_experts(pattern, chunk.offset);
}

/// Returns the rows that the experts of a rank compute, if every expert is chosen by as many tokens.
std::int64_t rows_of_experts(const ActivationShape& shape) {
  const ExpertOptions& experts = shape.model.experts;
  const std::int64_t tokens = of_rank(shape, shape.tokens), chosen = tokens * experts.moe_router_topk;
  if (!experts.capacity_factor) return chosen * shape.etp;
  const double even = static_cast<double>(chosen) / static_cast<double>(experts.num_experts);
  const auto capacity = static_cast<std::int64_t>(std::ceil(even * *experts.capacity_factor));
  const std::int64_t most = capacity * experts.num_experts;
  return (experts.pad_to_capacity ? most : std::min(chosen, most)) * shape.etp;
}

/// Returns the bytes that a layer keeps of its router, its experts and its shared experts.
std::int64_t expert_bytes(const ActivationShape& shape) {
  const ModelShape& model = shape.model;
  const std::int64_t parts = model.gated_mlp ? 3 : 2;
  const std::int64_t of_row = model.hidden_size + parts * model.experts.moe_ffn_hidden_size / shape.etp;
  const std::int64_t shared = parts * model.experts.shared_expert_intermediate_size / shape.tp;
  return kLogit * of_rank(shape, shape.tokens) * model.experts.num_experts +
         shape.element_bytes * (rows_of_experts(shape) * of_row + shared * shape.tokens);
}

/// Returns the bytes that a microbatch leaves on a pipeline rank, for each of its chunks.
std::vector<std::int64_t> chunk_bytes(const ActivationShape& shape,
                                      const std::vector<sim::StageLayers>& chunks, bool is_first,
                                      bool is_last) {
  std::vector<std::int64_t> bytes;
  const std::int64_t input = of_rank(shape, shape.element_bytes * shape.model.hidden_size * shape.tokens);
  for (const sim::StageLayers& chunk : chunks) {
    const std::int64_t with_experts = layers_with_experts(shape.model, chunk);
    bytes.push_back(shape.recompute ? chunk.count * input
                                    : (chunk.count - with_experts) * layer_activation_bytes(shape) +
                                          with_experts * layer_activation_bytes(shape, true));
  }
  if (is_first) bytes.front() += embedding_bytes(shape);
  if (is_last) bytes.back() += output_bytes(shape);
  return bytes;
}

/// Returns the bytes of the layer that keeps the most, among those of a pipeline rank.
std::int64_t largest_layer(const ActivationShape& shape, const std::vector<sim::StageLayers>& chunks) {
  std::int64_t layers = 0, with_experts = 0;
  for (const sim::StageLayers& chunk : chunks) {
    layers += chunk.count;
    with_experts += layers_with_experts(shape.model, chunk);
  }
  const std::int64_t dense = layers > with_experts ? layer_activation_bytes(shape) : 0;
  return std::max(dense, with_experts > 0 ? layer_activation_bytes(shape, true) : 0);
}

std::int64_t most_in_flight(const sim::RankSchedule& schedule, const std::vector<std::int64_t>& of_chunk) {
  std::int64_t now = 0, most = 0;
  for (const sim::Step& step : sim::steps_of(schedule)) {
    const std::int64_t bytes = of_chunk[static_cast<std::size_t>(step.chunk)];
    now += step.pass == sim::Pass::forward ? bytes : -bytes;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

bool can_be_counted(const ActivationShape& shape, const sim::PipelineShape& pipeline) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const ModelShape& model = shape.model;
  constexpr double kMostOfAnElement = 32, kMost = std::int64_t{1} << 53;
  const std::int64_t attended = model.num_attention_heads * model.kv_channels.value_or(0);
  const double of_layers = kMostOfAnElement * number(model.num_layers) *
                           (number(std::max(model.hidden_size, attended)) + number(model.ffn_hidden_size));
  const ExpertOptions& experts = model.experts;
  const double rows = number(experts.num_experts == 0 ? 0 : experts.moe_router_topk) * shape.etp *
                      std::max(1.0, experts.capacity_factor.value_or(1)) * 2;
  const double of_experts = kMostOfAnElement * number(model.num_layers) *
                            (rows * (number(model.hidden_size) + number(experts.moe_ffn_hidden_size)) +
                             number(experts.num_experts) + number(experts.shared_expert_intermediate_size));
  const double in_flight =
      number(std::min(pipeline.num_microbatches, 2 * pipeline.pipeline_model_parallel_size));
  return (of_layers + of_experts + kLogit * number(shape.padded_vocab_size)) * number(shape.tokens) *
             in_flight <=
         kMost;
}

std::int64_t layer_activation_bytes(const ActivationShape& shape, bool has_experts) {
  const ModelShape& model = shape.model;
  const std::int64_t h = model.hidden_size;
  const std::int64_t groups = std::max<std::int64_t>(model.num_query_groups / shape.tp, 1);
  const std::int64_t keys_and_values = 2 * groups * model.head_size();
  const std::int64_t attended = model.num_attention_heads * model.head_size() / shape.tp;
  const std::int64_t ffn = (model.gated_mlp ? 3 : 2) * model.ffn_hidden_size / shape.tp;
  const std::int64_t whole = of_rank(shape, (4 * shape.element_bytes + 2 * kMask) * h * shape.tokens);
  const std::int64_t attention = shape.element_bytes * (2 * attended + keys_and_values) * shape.tokens;
  return whole + attention + (has_experts ? expert_bytes(shape) : shape.element_bytes * ffn * shape.tokens);
}

std::vector<std::int64_t> activation_bytes(const ActivationShape& shape, const sim::LayerPlacement& placement,
                                           sim::ScheduleFunction schedule,
                                           const sim::PipelineShape& pipeline) {
  CHECK(std::ssize(placement.stages) == pipeline.ranks());
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    const auto& chunks = placement.stages[static_cast<std::size_t>(rank)];
    CHECK(std::ssize(chunks) == pipeline.chunks());
    const bool is_last = rank + 1 == pipeline.ranks();
    const std::int64_t again = shape.recompute ? largest_layer(shape, chunks) : 0;
    all.push_back(again +
                  most_in_flight(schedule(pipeline, rank), chunk_bytes(shape, chunks, rank == 0, is_last)));
  }
  return all;
}

}  // namespace verify
