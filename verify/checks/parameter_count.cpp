#include "verify/checks/parameter_count.h"

#include "sim/layout/size_rules.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

void check(const sim::GptConfig& shape) {
  sim::require_size("--num-layers", shape.num_layers);
  sim::require_size("--hidden-size", shape.hidden_size);
  sim::require_size("--ffn-hidden-size (from --hidden-size unless given)", shape.ffn_hidden_size);
  sim::require_size("--num-attention-heads", shape.num_attention_heads);
  sim::require_size("--num-query-groups", shape.num_query_groups);
  sim::require_size("--vocab-size", shape.vocab_size);
  sim::require_size("--seq-length", shape.seq_length);
  if (shape.experts.num_experts > 0) {
    sim::require_size("--num-experts", shape.experts.num_experts);
    sim::require_size("--moe-router-topk", shape.experts.routing.topk);
    sim::require_size("--moe-ffn-hidden-size (from --ffn-hidden-size unless given)",
                      shape.experts.moe_ffn_hidden_size);
    if (shape.experts.shared_expert_intermediate_size > 0)
      sim::require_size("--moe-shared-expert-intermediate-size",
                        shape.experts.shared_expert_intermediate_size);
  }
  if (shape.kv_channels > 0) {
    sim::require_size("--kv-channels", shape.kv_channels);
    sim::require_size("--num-attention-heads times --kv-channels",
                      sim::capped_product({shape.num_attention_heads, shape.kv_channels}));
  } else if (shape.hidden_size % shape.num_attention_heads != 0) {
    refuse_by("heads_div", "--num-attention-heads", shape.hidden_size, shape.num_attention_heads);
  }
  if (shape.num_attention_heads % shape.num_query_groups != 0)
    refuse_by("groups_div", "--num-query-groups", shape.num_attention_heads, shape.num_query_groups);
}

/// Refuses a product that is too large to be counted. One matrix has at most 2^48 elements, and so have the
/// embeddings.
std::int64_t counted_product(const char* option, std::int64_t count, const char* things,
                             std::int64_t of_one) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(count, of_one, &product) && product <= kMost) return product;
  refuse_by("too_many_parameters", option, count, things, of_one, kMost);
}

std::int64_t linear(std::int64_t out, std::int64_t in, bool has_bias) {
  return out * in + (has_bias ? out : 0);
}

std::int64_t norm(const sim::GptConfig& shape, std::int64_t width) {
  return width * (shape.has_rms_norm() ? 1 : 2);
}

std::int64_t latent_attention(const sim::GptConfig& shape, const sim::LatentSizes& latent) {
  const std::int64_t h = shape.hidden_size, heads = shape.num_attention_heads;
  const std::int64_t q = heads * (latent.qk_head_dim + latent.qk_pos_emb_head_dim);
  const std::int64_t kv = heads * (latent.qk_head_dim + latent.v_head_dim);
  const std::int64_t rank = latent.q_lora_rank;
  const std::int64_t queries = rank == 0 ? q * h : rank * h + q * rank;
  const std::int64_t down = (latent.kv_lora_rank + latent.qk_pos_emb_head_dim) * h;
  const std::int64_t norms = shape.qk_layernorm ? norm(shape, rank) + norm(shape, latent.kv_lora_rank) : 0;
  return queries + down + kv * latent.kv_lora_rank + norms + linear(h, heads * latent.v_head_dim, shape.bias);
}

std::int64_t attention(const sim::GptConfig& shape) {
  if (shape.latent) return latent_attention(shape, *shape.latent);
  const std::int64_t h = shape.hidden_size;
  const std::int64_t q = shape.num_attention_heads * shape.head_size();
  const std::int64_t kv = shape.num_query_groups * shape.head_size();
  const bool bias = shape.bias, qkv_bias = bias || shape.add_qkv_bias;
  const std::int64_t norms = shape.qk_layernorm ? 2 * norm(shape, shape.head_size()) : 0;
  return linear(q, h, qkv_bias) + 2 * linear(kv, h, qkv_bias) + linear(h, q, bias) + norms;
}

/// Everything of a layer but its MLP or experts.
std::int64_t attention_and_norms(const sim::GptConfig& shape) {
  return attention(shape) + 2 * norm(shape, shape.hidden_size);
}

std::int64_t mlp(const sim::GptConfig& shape, std::int64_t inside, bool bias) {
  const std::int64_t h = shape.hidden_size;
  return linear(inside, h, bias) * (shape.gated ? 2 : 1) + linear(h, inside, bias);
}

std::int64_t one_expert(const sim::GptConfig& shape) {
  return mlp(shape, shape.experts.moe_ffn_hidden_size, shape.bias);
}

/// What every token of a layer with experts goes through.
std::int64_t router_and_shared_experts(const sim::GptConfig& shape) {
  const sim::GptExperts& experts = shape.experts;
  const std::int64_t shared = experts.shared_expert_intermediate_size;
  const std::int64_t router = linear(experts.num_experts, shape.hidden_size, shape.bias);
  if (shared == 0) return router;
  return router + mlp(shape, shared, false) + (experts.shared_expert_gate ? shape.hidden_size : 0);
}

std::int64_t layers_with_experts(const sim::GptConfig& shape) {
  return shape.experts.num_experts == 0 ? 0 : shape.experts.moe_layer_freq.count(shape.num_layers);
}

/// The parameters of this many experts in every layer that has some.
std::int64_t experts_of_all_layers(const sim::GptConfig& shape, std::int64_t experts) {
  const std::int64_t layers = layers_with_experts(shape);
  if (layers == 0) return 0;
  return counted_product("--num-layers", layers, "layers",
                         counted_product("--num-experts", experts, "experts", one_expert(shape)));
}

/// The layers that predict further tokens: each is a layer such as the last one, with three norms and a
/// matrix that joins two hidden states.
std::int64_t predictions(const sim::GptConfig& shape) {
  if (shape.mtp_num_layers == 0) return 0;
  const std::int64_t h = shape.hidden_size;
  const std::int64_t inside =
      shape.experts.are_in(shape.num_layers - 1)
          ? router_and_shared_experts(shape) + shape.experts.num_experts * one_expert(shape)
          : mlp(shape, shape.ffn_hidden_size, shape.bias);
  return shape.mtp_num_layers * (attention_and_norms(shape) + inside + 3 * norm(shape, h) + 2 * h * h);
}

}  // namespace

std::int64_t parameter_count(const sim::GptConfig& shape) {
  check(shape);
  const std::int64_t h = shape.hidden_size, with_experts = layers_with_experts(shape);
  const std::int64_t embeddings = shape.vocab_size * h * (shape.untie_embeddings_and_output_weights ? 2 : 1) +
                                  (shape.has_learned_positions() ? shape.positions() * h : 0);
  const std::int64_t final_norm = h * (shape.has_rms_norm() ? 1 : 2);
  const auto layers = [](std::int64_t count, std::int64_t of_one) {
    return count == 0 ? 0 : counted_product("--num-layers", count, "layers", of_one);
  };
  const std::int64_t common = attention_and_norms(shape);
  return layers(shape.num_layers - with_experts, common + mlp(shape, shape.ffn_hidden_size, shape.bias)) +
         layers(with_experts, common + router_and_shared_experts(shape)) + expert_parameter_count(shape) +
         embeddings + final_norm + predictions(shape);
}

std::int64_t expert_parameter_count(const sim::GptConfig& shape) {
  return experts_of_all_layers(shape, shape.experts.num_experts);
}

std::int64_t active_parameter_count(const sim::GptConfig& shape) {
  return parameter_count(shape) - expert_parameter_count(shape) +
         experts_of_all_layers(shape, shape.experts.routing.topk);
}

}  // namespace verify
