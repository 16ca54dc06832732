#include "verify/checks/activation_memory.h"

#include <algorithm>

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

/// Returns the bytes that a microbatch leaves on a pipeline rank, for each of its chunks.
std::vector<std::int64_t> chunk_bytes(const ActivationShape& shape,
                                      const std::vector<sim::StageLayers>& chunks, bool is_first,
                                      bool is_last) {
  std::vector<std::int64_t> bytes;
  for (const sim::StageLayers& chunk : chunks) {
    const std::int64_t input = of_rank(shape, shape.element_bytes * shape.model.hidden_size * shape.tokens);
    bytes.push_back(chunk.count * (shape.recompute ? input : layer_activation_bytes(shape)));
  }
  if (is_first) bytes.front() += embedding_bytes(shape);
  if (is_last) bytes.back() += output_bytes(shape);
  return bytes;
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
  const double in_flight =
      number(std::min(pipeline.num_microbatches, 2 * pipeline.pipeline_model_parallel_size));
  return (of_layers + kLogit * number(shape.padded_vocab_size)) * number(shape.tokens) * in_flight <= kMost;
}

std::int64_t layer_activation_bytes(const ActivationShape& shape) {
  const ModelShape& model = shape.model;
  const std::int64_t h = model.hidden_size;
  const std::int64_t groups = std::max<std::int64_t>(model.num_query_groups / shape.tp, 1);
  const std::int64_t keys_and_values = 2 * groups * model.head_size();
  const std::int64_t attended = model.num_attention_heads * model.head_size() / shape.tp;
  const std::int64_t ffn = (model.gated_mlp ? 3 : 2) * model.ffn_hidden_size / shape.tp;
  const std::int64_t whole = of_rank(shape, (4 * shape.element_bytes + 2 * kMask) * h * shape.tokens);
  return whole + shape.element_bytes * (2 * attended + keys_and_values + ffn) * shape.tokens;
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
    const std::int64_t again = shape.recompute ? layer_activation_bytes(shape) : 0;
    all.push_back(again +
                  most_in_flight(schedule(pipeline, rank), chunk_bytes(shape, chunks, rank == 0, is_last)));
  }
  return all;
}

}  // namespace verify
