#include "verify/memory/fixed_memory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace verify {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kOfProducts =
    32 * kMiB;  // of one library and thread, on a GPU of compute capability 9

/// The allgather dispatcher gathers the tokens of all ranks that share experts, into the buffer of sequence
/// parallelism. `own` are the bytes of a rank's own tokens.
std::int64_t gathered_for_experts(const ActivationShape& shape, std::int64_t own) {
  const sim::GptExperts& experts = shape.model.experts;
  const int ranks = shape.ep * shape.etp;
  return experts.num_experts > 0 && experts.dispatcher == sim::TokenDispatcherType::allgather && ranks > 1
             ? ranks * own
             : 0;
}

}  // namespace

std::int64_t key_and_value_bytes(const ActivationShape& shape) {
  const sim::GptConfig& model = shape.model;
  std::int64_t elements =
      2 * std::max<std::int64_t>(model.num_query_groups / shape.tp, 1) * model.head_size();
  if (const auto& latent = model.latent) {
    elements = model.num_attention_heads / shape.tp *
               (latent->qk_head_dim + latent->qk_pos_emb_head_dim + latent->v_head_dim);
  }
  return shape.element_bytes * elements * shape.tokens;
}

std::int64_t workspace_bytes(const ActivationShape& shape) {
  const MemoryOptions& options = shape.options;
  if (options.workspace) return *options.workspace;
  const bool has_experts = shape.model.experts.num_experts > 0;
  std::int64_t bytes = 3 * kOfProducts + 2 * kMiB;
  // Without Transformer Engine's layers, its products are still those of the router.
  if (options.local_layers && !has_experts) bytes -= kOfProducts;
  if (has_experts) bytes += 2 * kMiB;
  constexpr int kStreams = 4;
  if (has_experts && options.grouped_experts) bytes += kStreams * kOfProducts;
  return bytes;
}

std::int64_t placeholder_elements(const std::vector<HeldParameter>& held) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;  // elements, and inputs
  for (const HeldParameter& parameter : held)
    if (parameter.inputs > 0) shapes.emplace(parameter.elements, parameter.inputs);
  std::int64_t sum = 0;
  for (const auto& [elements, inputs] : shapes) sum += elements;
  return sum;
}

std::int64_t communication_buffer_bytes(const ActivationShape& shape, int pp, std::int64_t chunks,
                                        bool is_last) {
  const std::int64_t sent = shape.element_bytes * shape.model.hidden_size * shape.own_tokens();
  const std::int64_t gathered = shape.element_bytes * shape.model.hidden_size * shape.tokens;
  std::int64_t bytes = pp == 1 ? 0 : chunks == 1 ? 2 * sent : 5 * chunks * sent / 2;
  if (shape.cp > 1) bytes += 2 * key_and_value_bytes(shape);
  const bool gathers = shape.sequence_parallel && (is_last || shape.options.local_layers);
  const std::int64_t of_gather = std::max(gathers ? gathered : 0, gathered_for_experts(shape, sent));
  const std::int64_t of_scores = shape.options.local_layers ? score_bytes(shape) : 0;
  return bytes + std::max(of_gather, of_scores);
}

}  // namespace verify
