#include "verify/memory/fixed_memory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace verify {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kOfProducts =
    32 * kMiB;  // of one library and thread, on a GPU of compute capability 9

/// The keys and values of a microbatch on a rank.
std::int64_t key_and_value_bytes(const ActivationShape& shape) {
  const ModelShape& model = shape.model;
  std::int64_t elements =
      2 * std::max<std::int64_t>(model.num_query_groups / shape.tp, 1) * model.head_size();
  if (const auto& latent = model.latent) {
    elements = model.num_attention_heads / shape.tp *
               (latent->qk_head_dim + latent->qk_pos_emb_head_dim + latent->v_head_dim);
  }
  return shape.element_bytes * elements * shape.tokens;
}

/// The allgather dispatcher gathers the tokens of all ranks that share experts, into the buffer of sequence
/// parallelism. `own` are the bytes of a rank's own tokens.
std::int64_t gathered_for_experts(const ActivationShape& shape, std::int64_t own) {
  const ExpertOptions& experts = shape.model.experts;
  const int ranks = shape.ep * shape.etp;
  return experts.num_experts > 0 && experts.dispatcher == "allgather" && ranks > 1 ? ranks * own : 0;
}

/// The shapes of the weights of matrix products on a rank, each of which is there once.
class WeightShapes {
 public:
  explicit WeightShapes(const ActivationShape& shape)
      : model_(shape.model), tp_(shape.tp), etp_(shape.etp), h_(shape.model.hidden_size) {}

  void attention() {
    const std::int64_t heads = model_.num_attention_heads / tp_;
    if (!model_.latent) {
      const std::int64_t groups = std::max<std::int64_t>(model_.num_query_groups / tp_, 1);
      add((heads + 2 * groups) * model_.head_size(), h_);
      add(h_, heads * model_.head_size());
      return;
    }
    const LatentAttention& latent = *model_.latent;
    const bool has_rank = latent.q_lora_rank > 0;
    if (has_rank) add(latent.q_lora_rank, h_);
    add(heads * (latent.qk_head_dim + latent.qk_pos_emb_head_dim), has_rank ? latent.q_lora_rank : h_);
    add(latent.kv_lora_rank + latent.qk_pos_emb_head_dim, h_);
    add(heads * (latent.qk_head_dim + latent.v_head_dim), latent.kv_lora_rank);
    add(h_, heads * latent.v_head_dim);
  }
  void dense() { mlp(model_.ffn_hidden_size / tp_); }
  void experts() {
    mlp(model_.experts.moe_ffn_hidden_size / etp_);
    if (model_.experts.shared_expert_intermediate_size > 0)
      mlp(model_.experts.shared_expert_intermediate_size / tp_);
  }
  void output(std::int64_t words) {
    add(words / tp_, h_);
    if (model_.mtp_num_layers > 0) add(h_ / tp_, 2 * h_);  // joins two states
  }
  std::int64_t elements() const {
    std::int64_t sum = 0;
    for (const auto& [rows, columns] : shapes_) sum += rows * columns;
    return sum;
  }

 private:
  void add(std::int64_t rows, std::int64_t columns) { shapes_.emplace(rows, columns); }
  void mlp(std::int64_t inside) {
    add((model_.gated_mlp ? 2 : 1) * inside, h_);
    add(h_, inside);
  }

  const ModelShape& model_;
  std::int64_t tp_, etp_, h_;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes_;
};

}  // namespace

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

std::int64_t placeholder_gradient_bytes(const ActivationShape& shape, const LayerKinds& kinds) {
  if (!shape.options.fused_weight_gradient) return 0;
  WeightShapes weights(shape);
  if (kinds.dense || kinds.with_experts) weights.attention();
  if (kinds.dense) weights.dense();
  if (kinds.with_experts) weights.experts();
  if (kinds.is_last) weights.output(shape.padded_vocab_size);
  return shape.element_bytes * weights.elements();
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
