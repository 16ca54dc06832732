#include "verify/full_size/moved_bytes.h"

#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

std::int64_t tokens_of(const ScenarioRequest& request) {
  return request.model.config.seq_length / request.layout.cp * request.batch.micro_batch_size;
}

/// The bytes that an MLP's activation moves for each of its rows.
std::int64_t activation_bytes(const sim::GptConfig& model, std::int64_t columns, std::int64_t element) {
  return (model.gated ? 3 : 2) * element * columns;
}

}  // namespace

std::int64_t moved_bytes_of_layer(const ScenarioRequest& request, bool has_experts) {
  const sim::GptConfig& model = request.model.config;
  const std::int64_t e = request.state.parameter == 2 ? 2 : 4, tp = request.layout.tp;
  const std::int64_t tokens = tokens_of(request), own = model.sequence_parallel ? tokens / tp : tokens;
  const std::int64_t heads = model.num_attention_heads, all_heads = heads + model.num_query_groups;
  const std::int64_t channels =
      model.latent ? model.latent->qk_head_dim + model.latent->qk_pos_emb_head_dim : model.head_size();
  const std::int64_t scores = request.memory.keeps_scores ? 6 * e * heads * model.seq_length : 0;
  std::int64_t bytes = 10 * e * model.hidden_size * own;
  bytes += (4 * e * all_heads * channels + scores) * tokens / tp;
  if (!has_experts) return bytes + activation_bytes(model, model.ffn_hidden_size, e) * tokens / tp;
  const sim::GptExperts& experts = model.experts;
  const std::int64_t columns =
      experts.routing.topk * experts.moe_ffn_hidden_size + experts.shared_expert_intermediate_size;
  return bytes + (4 * e * model.hidden_size * experts.routing.topk * own) +
         activation_bytes(model, columns, e) * tokens / tp;
}

std::int64_t moved_bytes_of_output(const ScenarioRequest& request) {
  constexpr std::int64_t kOfAnEntry = 20;
  const sim::GptConfig& model = request.model.config;
  const std::int64_t tp = request.layout.tp;
  const std::int64_t entries = *padded_vocabulary(model.vocab_size, tp, model.make_vocab_size_divisible_by);
  return kOfAnEntry * entries * tokens_of(request) / tp;
}

}  // namespace verify
