#include "verify/memory/layer_steps.h"

#include <algorithm>

namespace verify {

namespace {

/// The bytes of the parts of an MLP, or of a layer's experts on a rank.
struct Inside {
  std::int64_t input = 0;   // of the first product
  std::int64_t inside = 0;  // of the second product's input
  std::int64_t output = 0;  // a gradient that comes beside that of the layer's output
  std::int64_t weight = 0;  // of the gradient of the second product, if it is computed apart
};

/// The bytes of hidden states on their way to experts and back.
struct Rows {
  std::int64_t own = 0;       // what goes to the experts: the rows that the rank's tokens have chosen
  std::int64_t computed = 0;  // the rows that its experts compute
  bool are_sorted = false;    // by their experts, of which a rank has several
};

class StepsOfLayer {
 public:
  StepsOfLayer(const ActivationShape& shape, bool has_experts)
      : shape_(shape), has_experts_(has_experts), e_(shape.element_bytes) {}

  /// The forward step of a layer holds tokens on their way until the experts' outputs are back: its own rows,
  /// those that it received from ep, the outputs before and after they are sorted, and their sums over etp.
  /// The experts' inputs are kept anyway.
  std::int64_t forward_of_experts() const {
    const Rows rows = rows_of_a_layer();
    std::int64_t bytes = rows.own + rows.computed + output_of_shared_experts();
    if (experts().dispatcher == sim::TokenDispatcherType::allgather) return bytes;
    if (shape_.ep > 1 && (rows.are_sorted || shape_.etp > 1)) bytes += rows.own;
    if (rows.are_sorted) bytes += rows.computed;
    if (shape_.etp > 1) bytes += rows.own;
    return bytes;
  }

  /// The largest moment of a backward step whose tensors are all there (`is_whole`: of a layer that has just
  /// been computed again), or those that selective recomputation kept.
  std::int64_t backward(bool is_whole) const {
    return std::max({behind(is_whole), in_shared_experts(), in_attention(is_whole)});
  }

  std::int64_t width() const { return e_ * shape_.model.hidden_size * shape_.own_tokens(); }

 private:
  const sim::GptExperts& experts() const { return shape_.model.experts; }
  bool recomputes(const char* module) const { return shape_.options.recomputes(module); }
  PartBytes of(LayerPart part) const { return part_bytes(shape_, has_experts_, part); }

  /// In the MLP, or in the experts that a router has chosen. A module that is computed again as a whole has
  /// its output a second time.
  std::int64_t behind(bool is_whole) const {
    std::int64_t bytes = width() + of(LayerPart::mlp_norm).recomputed;
    if (!has_experts_) {
      bytes += of(LayerPart::mlp).recomputed + gradients_of(of_mlp(shape_.model.ffn_hidden_size));
      return bytes + (recomputes("mlp") ? width() : 0);
    }
    bytes += of(LayerPart::experts).recomputed + gradients_of_experts(is_whole || recomputes("moe"));
    return bytes + (recomputes("moe") ? of(LayerPart::mlp).recomputed + width() : 0);
  }

  /// The shared experts come when the others have given back what they kept, and have left the gradient of
  /// the input of both.
  std::int64_t in_shared_experts() const {
    if (!has_experts_ || experts().shared_expert_intermediate_size == 0) return 0;
    const std::int64_t output = recomputes("moe") || recomputes("shared_experts") ? width() : 0;
    return 2 * width() + of(LayerPart::mlp_norm).recomputed + of(LayerPart::mlp).recomputed + output +
           gradients_of(of_mlp(experts().shared_expert_intermediate_size)) - of(LayerPart::experts).kept;
  }

  /// In attention, when all after it have given back what they kept.
  std::int64_t in_attention(bool is_whole) const {
    const std::int64_t behind =
        of(LayerPart::mlp_norm).kept + of(LayerPart::mlp).kept + of(LayerPart::experts).kept;
    const std::int64_t of_output = is_whole ? width() : 0;  // the gradient that was handed to the whole layer
    return width() + of_output + of(LayerPart::attention).recomputed + gradients_of_attention() - behind;
  }

  /// The dispatcher allgather sends tokens to all ranks that share experts, and each takes its rows of them.
  /// Padded rows of one rank are sorted already.
  Rows rows_of_a_layer() const {
    const int ranks = shape_.ep * shape_.etp;
    const std::int64_t row = e_ * shape_.model.hidden_size, computed = row * rows_of_experts(shape_);
    if (experts().dispatcher == sim::TokenDispatcherType::allgather)
      return {.own = ranks * width(), .computed = computed};
    return {
        .own = computed / shape_.etp,
        .computed = computed,
        .are_sorted = experts().num_experts / shape_.ep > 1 && (ranks > 1 || !experts().pad_to_capacity())};
  }

  /// The output of shared experts waits for that of the others. Where both overlap, it is the whole one,
  /// whose sum over tp is taken at the end.
  std::int64_t output_of_shared_experts() const {
    if (experts().shared_expert_intermediate_size == 0) return 0;
    return shape_.options.overlaps_shared_experts ? e_ * shape_.model.hidden_size * shape_.tokens : width();
  }

  Inside of_mlp(std::int64_t of_all_ranks) const {
    const std::int64_t whole = e_ * shape_.model.hidden_size * shape_.tokens;
    const std::int64_t columns = of_all_ranks / shape_.tp;
    return {.input = shape_.sequence_parallel ? 2 * whole : whole,
            .inside = e_ * columns * shape_.tokens,
            .output = shape_.sequence_parallel ? whole : 0,
            .weight = e_ * columns * shape_.model.hidden_size};
  }
  Inside of_experts() const {
    const std::int64_t columns = experts().moe_ffn_hidden_size / shape_.etp, rows = rows_of_experts(shape_);
    // A grouped product makes the gradients of all experts of a rank at once.
    const std::int64_t matrices = shape_.options.grouped_experts ? experts().num_experts / shape_.ep : 1;
    return {.input = e_ * rows * shape_.model.hidden_size,
            .inside = e_ * rows * columns,
            .output = e_ * rows * shape_.model.hidden_size,
            .weight = e_ * columns * shape_.model.hidden_size * matrices};
  }

  /// Of the gradient of a weight, unless the product adds it to the buffer itself.
  std::int64_t of_weight(std::int64_t bytes) const {
    return shape_.options.fused_weight_gradient ? 0 : bytes;
  }

  /// The most that the backward step of an MLP holds beyond what it has given back by then: in its second
  /// product, in its activation, which has given back that product's input, or in its first product.
  std::int64_t gradients_of(const Inside& mlp) const {
    const std::int64_t up = shape_.model.gated ? 2 : 1;
    const std::int64_t weight = of_weight(mlp.weight);
    return std::max(
        {mlp.output + mlp.inside + weight, up * mlp.inside, mlp.input + up * weight - mlp.inside});
  }

  /// What experts need while they are computed again, or in their backward step, in which gradients go the
  /// way back that tokens came.
  std::int64_t gradients_of_experts(bool computes_again) const {
    const Rows rows = rows_of_a_layer();
    const std::int64_t on_the_way = rows.are_sorted ? 2 * rows.computed : rows.own + rows.computed;
    return std::max({gradients_of(of_experts()), on_the_way, computes_again ? forward_of_experts() : 0});
  }

  /// The bytes of the inputs of the core of attention, and of its output.
  struct Core {
    std::int64_t inputs = 0, output = 0;
  };
  Core core() const {
    const sim::GptConfig& model = shape_.model;
    const std::int64_t heads = model.num_attention_heads / shape_.tp, of_head = e_ * shape_.tokens;
    if (const auto& latent = model.latent) {
      const std::int64_t head = latent->qk_head_dim + latent->qk_pos_emb_head_dim;
      return {.inputs = heads * (2 * head + latent->v_head_dim) * of_head,
              .output = heads * latent->v_head_dim * of_head};
    }
    const std::int64_t groups = std::max<std::int64_t>(model.num_query_groups / shape_.tp, 1);
    return {.inputs = (heads + 2 * groups) * model.head_size() * of_head,
            .output = heads * model.head_size() * of_head};
  }

  /// In the core of attention: the gradients of its output, and of queries, keys and values. A core that is
  /// computed again has its output a second time.
  std::int64_t gradients_of_attention() const {
    const auto [inputs, output] = core();
    const std::int64_t in_core = inputs + output + (recomputes("core_attn") ? output : 0);
    return std::max(in_core, gradients_of_latent_projections());
  }

  /// Queries, keys and values that are computed again stay until their up-projections have their gradients,
  /// which are made from those of the core; it has given back its output by then.
  std::int64_t gradients_of_latent_projections() const {
    const auto& latent = shape_.model.latent;
    if (!latent || !recomputes("mla_up_proj")) return 0;
    const std::int64_t heads = shape_.model.num_attention_heads / shape_.tp, of_head = e_ * shape_.tokens;
    const std::int64_t outputs = heads * (latent->qk_head_dim + latent->v_head_dim);
    const std::int64_t head = latent->qk_head_dim + latent->qk_pos_emb_head_dim;
    const std::int64_t rotated = shape_.options.fused_rope ? 0 : heads * head * of_head;
    const auto [inputs, output] = core();
    return inputs + outputs * of_head + rotated + of_weight(e_ * outputs * latent->kv_lora_rank) - output;
  }

  const ActivationShape& shape_;
  bool has_experts_;
  std::int64_t e_;
};

}  // namespace

std::int64_t forward_bytes_of_experts(const ActivationShape& shape) {
  return StepsOfLayer(shape, true).forward_of_experts();
}

std::int64_t backward_bytes(const ActivationShape& shape, bool has_experts) {
  return StepsOfLayer(shape, has_experts).backward(false);
}

std::int64_t backward_bytes_again(const ActivationShape& shape, bool has_experts, std::int64_t layers) {
  const StepsOfLayer steps(shape, has_experts);
  return layers * layer_activation_bytes(shape, has_experts) + steps.width() + steps.backward(true);
}

std::int64_t backward_bytes_of_prediction(const ActivationShape& shape, bool has_experts) {
  return backward_bytes_again(shape, has_experts, 1) + 2 * StepsOfLayer(shape, has_experts).width();
}

}  // namespace verify
