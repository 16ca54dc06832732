#include "verify/memory/saved_tensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace verify {

namespace {

constexpr std::int64_t kMaskBytes = 1, kFloatBytes = 4, kIndexBytes = 8;  // bytes

bool has_loss_of_balance(const sim::GptExperts& experts) {
  return std::ranges::any_of(experts.aux_losses,
                             [](const sim::AuxLoss& loss) { return loss.coefficient.numerator > 0; });
}

class Layer {
 public:
  explicit Layer(const ActivationShape& shape)
      : shape_(shape),
        model_(shape.model),
        e_(shape.element_bytes),
        n_(shape.tokens),
        own_(shape.own_tokens()),
        h_(shape.model.hidden_size) {}

  /// `module` computes the norm again.
  void norm(const char* input, const char* output, const char* module) {
    one(input, own_, h_);
    one(output, own_, h_, module);
    add("norm statistics", statistics_of(own_), module);
  }
  void attention() {
    if (model_.latent) {
      latent(*model_.latent);
    } else {
      const std::int64_t heads = model_.num_attention_heads / shape_.tp, head = model_.head_size();
      const std::int64_t groups = std::max<std::int64_t>(model_.num_query_groups / shape_.tp, 1);
      if (model_.qk_layernorm) {
        add("queries and keys before their norms", e_ * (heads + groups) * head * n_);
        add("query and key norm statistics", statistics_of((heads + groups) * n_));
      }
      one("queries, keys, values", n_, (heads + 2 * groups) * head);
      add("queries and keys beside their product", e_ * beside_product(heads, groups) * head * n_);
      if (!model_.has_learned_positions()) rotary_tables(head);
      core(heads * head);
    }
    dropout("attention dropout mask");
  }
  void mlp(std::int64_t inside, const char* module, const char* act_module) {
    one("MLP before activation", n_, up() * inside / shape_.tp, module);
    one("MLP after activation", n_, inside / shape_.tp, act_module);
    if (has_factors()) add("factors of an unfused gate", 2 * e_ * inside * n_ / shape_.tp, act_module);
  }
  void experts() {
    const sim::GptExperts& experts = model_.experts;
    const std::int64_t rows = rows_of_experts(shape_);
    const std::int64_t columns = experts.moe_ffn_hidden_size / shape_.etp;
    router(experts);
    add("order of rows", order_of_rows(experts, rows), "moe");
    of_rows("expert input", rows, h_, "moe");
    inside_experts("experts before activation", rows, up() * columns, "moe");
    inside_experts("experts after activation", rows, columns, expert_activation());
    if (multiplies_apart()) inside_experts("experts after probabilities", rows, columns, expert_activation());
    if (has_factors())
      add("factors of an unfused gate of experts", 2 * e_ * rows * columns, expert_activation());
    if (experts.shared_expert_intermediate_size == 0) return;
    begin(LayerPart::mlp);
    mlp(experts.shared_expert_intermediate_size, shared_experts(), shared_experts());
    if (shape_.options.overlaps_shared_experts && shape_.sequence_parallel && shape_.tp > 1)
      one("gathered input of shared experts", n_, h_, shared_experts());
    if (experts.shared_expert_gate) one("output of shared experts", own_, h_, shared_experts());
  }
  /// What is added from here on belongs to this part.
  void begin(LayerPart part) { part_ = part; }
  void dropout(const char* name) {
    if (shape_.options.hidden_dropout) add(name, kMaskBytes * h_ * own_);
  }
  std::vector<SavedTensor> saved() { return std::move(saved_); }

 private:
  /// Of a logit or a probability of the router.
  std::int64_t router_bytes() const {
    return shape_.options.router_bytes > 0 ? shape_.options.router_bytes : e_;
  }
  void router(const sim::GptExperts& experts) {
    const std::int64_t all = experts.num_experts;
    add("probabilities and map", (router_bytes() + kMaskBytes) * all * own_, "moe");
    add("choice of experts", bytes_of_choice(experts) * own_, "moe");
    if (has_loss_of_balance(experts)) add("scores for a loss of balance", kFloatBytes * all * own_, "moe");
    if (experts.z_loss_coefficient) add("logits for the z-loss", router_bytes() * all * own_, "moe");
  }
  /// Of one token: the scores, which are computed in fp32, and the indices of the experts.
  std::int64_t bytes_of_choice(const sim::GptExperts& experts) const {
    const std::int64_t all = experts.num_experts, chosen = experts.routing.topk;
    if (shape_.options.fused_router) return kFloatBytes * all;
    const std::int64_t indices = kIndexBytes * chosen;
    const sim::ScoreFunction function = experts.routing.score_function;
    if (function == sim::ScoreFunction::softmax)
      return indices + kFloatBytes * (experts.routing.pre_softmax ? all : chosen);
    const std::int64_t of_function = function == sim::ScoreFunction::sqrtsoftplus ? 2 * all : all;
    return indices + kFloatBytes * (of_function + chosen + 1);  // the scores that are chosen, and their sum
  }
  /// What says how rows are ordered by their experts, and the probabilities in that order. Without a kernel
  /// of its own, all pairs of an expert and a token are sorted, unless each expert has as many rows.
  std::int64_t order_of_rows(const sim::GptExperts& experts, std::int64_t rows) const {
    const bool is_fused = shape_.options.fused_permutation;
    const std::int64_t local = experts.num_experts / shape_.ep, probabilities = router_bytes() * rows;
    const auto map_of_kernel = [](std::int64_t of_experts) { return kFloatBytes * (2 * of_experts + 1); };
    if (experts.dispatcher == sim::TokenDispatcherType::allgather) {
      const std::int64_t tokens = own_ * shape_.ep * shape_.etp;
      return tokens * (kMaskBytes * local + (is_fused ? map_of_kernel(local) : 0)) +
             (is_fused ? 0 : kIndexBytes * rows) + probabilities;
    }
    const std::int64_t sorted_chunks = local > 1 && is_fused ? 2 * kFloatBytes * rows : 0;
    if (is_fused) return own_ * map_of_kernel(experts.num_experts) + sorted_chunks + probabilities;
    const std::int64_t chosen = rows / shape_.etp;
    if (experts.pad_to_capacity()) return 2 * kIndexBytes * chosen + probabilities;
    return kIndexBytes * (experts.num_experts * own_ + chosen) + probabilities;
  }
  std::int64_t up() const { return model_.gated ? 2 : 1; }
  /// Whether an activation keeps both factors of its product, for which it has no kernel of its own.
  bool has_factors() const {
    return model_.gated && !shape_.options.fused_gate && !shape_.options.te_activation;
  }
  /// Whether a kernel of its own multiplies what experts have activated by the probabilities.
  bool multiplies_apart() const {
    const MemoryOptions& options = shape_.options;
    return options.te_activation || !(model_.gated ? options.fused_gate : options.fused_squared_relu);
  }
  const char* expert_activation() const { return shape_.options.recomputes("moe_act") ? "moe_act" : "moe"; }
  /// The module moe has the shared experts, too.
  const char* shared_experts() const { return shape_.options.recomputes("moe") ? "moe" : "shared_experts"; }
  void add(const char* name, std::int64_t bytes, const char* module = "") {
    saved_.push_back({name, bytes, module, part_});
  }
  void one(const char* name, std::int64_t tokens, std::int64_t width, const char* module = "") {
    one(name, shape_.shape_of(tokens, width), e_ * tokens * width, module);
  }
  void of_rows(const char* name, std::int64_t rows, std::int64_t width, const char* module) {
    one(name, {rows, width}, e_ * rows * width, module);
  }
  /// Without a grouped product, each expert of a rank has a tensor of its own.
  void inside_experts(const char* name, std::int64_t rows, std::int64_t width, const char* module) {
    const bool are_one = shape_.options.grouped_experts || model_.experts.num_experts == shape_.ep;
    if (are_one) {
      of_rows(name, rows, width, module);
    } else {
      add(name, e_ * rows * width, module);
    }
  }
  void one(const char* name, std::vector<std::int64_t> shape, std::int64_t bytes, const char* module) {
    saved_.push_back({name, bytes, module, part_, std::move(shape)});
  }
  /// Of a norm of this many rows.
  std::int64_t statistics_of(std::int64_t rows) const {
    return (model_.has_rms_norm() ? 1 : 2) * kFloatBytes * rows;
  }
  /// The heads of queries and keys that are apart from the product which made them with the values, where a
  /// view of the values keeps that product whole. A flash kernel copies the values, and keeps it no longer.
  std::int64_t beside_product(std::int64_t heads, std::int64_t groups) const {
    const bool rotates = !model_.has_learned_positions();
    if (shape_.options.recomputes("core_attn")) {
      if (rotates || model_.qk_layernorm) return heads + groups;
      return groups < heads ? heads : 0;
    }
    if (!shape_.options.local_layers) return 0;
    // Grouped keys and values are repeated for each query, and norms have kept the product already.
    if (groups < heads) return 2 * (heads - groups);
    return rotates && !model_.qk_layernorm ? heads + groups : 0;
  }
  /// Without a kernel of its own a rotation keeps the cosines and sines by which it multiplies queries and
  /// keys.
  void rotary_tables(std::int64_t width) {
    if (shape_.options.fused_rope) return;
    add("rotary tables", 2 * 2 * e_ * width * (n_ / std::max<std::int64_t>(shape_.micro_batch_size, 1)));
  }
  void latent(const sim::LatentSizes& latent) {
    const std::int64_t heads = model_.num_attention_heads / shape_.tp;
    const std::int64_t head = latent.qk_head_dim + latent.qk_pos_emb_head_dim;
    if (latent.q_lora_rank > 0) one("latent states of queries", own_, latent.q_lora_rank);
    one("latent states of keys and values", own_, latent.kv_lora_rank);
    if (model_.qk_layernorm) {
      // Transformer Engine fuses the norms into the up-projections.
      const char* module = shape_.options.local_layers ? "" : "mla_up_proj";
      if (latent.q_lora_rank > 0) one("norm output of latent queries", own_, latent.q_lora_rank, module);
      one("norm output of latent keys and values", own_, latent.kv_lora_rank, module);
      add("latent norm statistics", statistics_of((latent.q_lora_rank > 0 ? 2 : 1) * own_), module);
    }
    add("key positions", e_ * latent.qk_pos_emb_head_dim * n_);
    one("latent queries", n_, heads * head, "mla_up_proj");
    one("latent keys", n_, heads * head, "mla_up_proj");
    one("latent values", n_, heads * latent.v_head_dim, "mla_up_proj");
    if (!model_.has_learned_positions()) rotary_tables(latent.qk_pos_emb_head_dim);
    core(heads * latent.v_head_dim);
  }
  /// Megatron's own kernel of a softmax takes sequences of up to 4096 tokens, in fours as heads are.
  bool converts_softmax() const {
    if (!shape_.options.local_layers || !shape_.options.softmax_in_fp32) return false;
    const std::int64_t heads = shape_.micro_batch_size * model_.num_attention_heads / shape_.tp;
    const std::int64_t length = model_.seq_length;
    return !shape_.options.fused_softmax || length <= 16 || length > 4096 || length % 4 != 0 ||
           heads % 4 != 0;
  }
  /// A softmax that is converted for the product with the values is there twice.
  void add_scores() {
    const std::int64_t scores = score_bytes(shape_) / e_;
    const std::int64_t heads = model_.num_attention_heads / shape_.tp, length = model_.seq_length;
    const std::int64_t of_one = converts_softmax() ? kFloatBytes : e_;
    one("attention scores", {shape_.micro_batch_size, heads, shape_.tokens / shape_.micro_batch_size, length},
        scores * of_one, "core_attn");
    if (converts_softmax() && !shape_.options.attention_dropout)
      add("attention scores in 16 bits", scores * e_, "core_attn");
  }
  void core(std::int64_t attended) {
    if (shape_.options.keeps_scores) {
      add_scores();
      if (shape_.options.attention_dropout)
        add("dropout of scores", score_bytes(shape_) / e_ * (e_ + kMaskBytes), "core_attn");
    } else {
      add("attention statistics", kFloatBytes * model_.num_attention_heads / shape_.tp * n_, "core_attn");
    }
    one("attention output", n_, attended);
    // Attention over gathered keys works in two steps, and keeps their outputs beside the joined one.
    if (shape_.cp > 1 && shape_.options.gathers_keys)
      add("attention output of steps", e_ * attended * n_, "core_attn");
  }

  const ActivationShape& shape_;
  const sim::GptConfig& model_;
  std::int64_t e_, n_, own_, h_;
  LayerPart part_ = LayerPart::attention;
  std::vector<SavedTensor> saved_;
};

bool is_recomputed(const ActivationShape& shape, const SavedTensor& tensor) {
  return *tensor.module != '\0' && shape.options.recomputes(tensor.module);
}

std::int64_t bytes_where(const ActivationShape& shape, bool has_experts, bool recomputed) {
  std::int64_t bytes = 0;
  for (const SavedTensor& tensor : saved_tensors(shape, has_experts))
    if (is_recomputed(shape, tensor) == recomputed) bytes += tensor.bytes;
  return bytes;
}

}  // namespace

std::int64_t score_bytes(const ActivationShape& shape) {
  return shape.element_bytes * shape.model.num_attention_heads / shape.tp * shape.model.seq_length *
         shape.tokens;
}

std::int64_t rows_of_experts(const ActivationShape& shape) {
  const sim::GptExperts& experts = shape.model.experts;
  const std::int64_t chosen = shape.own_tokens() * experts.routing.topk;
  if (!experts.token_dropping) return chosen * shape.etp;
  const double even = static_cast<double>(chosen) / static_cast<double>(experts.num_experts);
  const auto capacity = static_cast<std::int64_t>(std::ceil(even * experts.token_dropping->capacity_factor));
  const std::int64_t most = capacity * experts.num_experts;
  return (experts.token_dropping->pad_to_capacity ? most : std::min(chosen, most)) * shape.etp;
}

std::vector<SavedTensor> saved_tensors(const ActivationShape& shape, bool has_experts) {
  Layer layer(shape);
  // Transformer Engine fuses a norm into the matrix product after it, but not before latent attention and
  // experts. The module layernorm is the norms that are not fused.
  const bool is_local = shape.options.local_layers;
  layer.norm("attention norm input", "attention norm output",
             is_local || shape.model.latent ? "layernorm" : "");
  layer.attention();
  layer.begin(LayerPart::mlp_norm);
  layer.norm("MLP norm input", "MLP norm output", is_local || has_experts ? "layernorm" : "mlp");
  layer.dropout("MLP dropout mask");
  layer.begin(has_experts ? LayerPart::experts : LayerPart::mlp);
  if (has_experts) {
    layer.experts();
  } else {
    layer.mlp(shape.model.ffn_hidden_size, "mlp", "mlp");
  }
  return layer.saved();
}

std::int64_t layer_activation_bytes(const ActivationShape& shape, bool has_experts) {
  return bytes_where(shape, has_experts, false);
}

std::int64_t recomputed_bytes(const ActivationShape& shape, bool has_experts) {
  return bytes_where(shape, has_experts, true);
}

PartBytes part_bytes(const ActivationShape& shape, bool has_experts, LayerPart part) {
  PartBytes bytes;
  for (const SavedTensor& tensor : saved_tensors(shape, has_experts)) {
    if (tensor.part != part) continue;
    (is_recomputed(shape, tensor) ? bytes.recomputed : bytes.kept) += tensor.bytes;
  }
  return bytes;
}

}  // namespace verify
