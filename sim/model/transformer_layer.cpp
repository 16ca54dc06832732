#include "sim/model/transformer_layer.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

ParallelNormConfig norm_config(const TransformerLayerConfig& config, const char* name) {
  return {.name = config.name + name,
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .norm = config.norm,
          .epsilon = config.epsilon,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.norm_initial};
}

SelfAttentionConfig attention_config(const TransformerLayerConfig& config) {
  return {.name = config.name + ".self_attention",
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .num_attention_heads = config.num_attention_heads,
          .num_query_groups = config.num_query_groups,
          .kv_channels = config.kv_channels,
          .sequence_length = config.sequence_length,
          .cu_seqlens = config.cu_seqlens,
          .cp_comm_type = config.cp_comm_type,
          .rotary_base = config.rotary_base,
          .causal = config.causal,
          .window = config.window,
          .attention_dropout = config.attention_dropout,
          .bias = config.bias,
          .add_qkv_bias = config.add_qkv_bias,
          .qk_layernorm = config.qk_layernorm,
          .norm = config.norm,
          .epsilon = config.epsilon,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial,
          .norm_initial = config.norm_initial};
}

MultiLatentAttentionConfig latent_config(const TransformerLayerConfig& config) {
  return {.name = config.name + ".self_attention",
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .num_attention_heads = config.num_attention_heads,
          .latent = *config.latent,
          .sequence_length = config.sequence_length,
          .cu_seqlens = config.cu_seqlens,
          .cp_comm_type = config.cp_comm_type,
          .causal = config.causal,
          .window = config.window,
          .attention_dropout = config.attention_dropout,
          .bias = config.bias,
          .qk_layernorm = config.qk_layernorm,
          .norm = config.norm,
          .epsilon = config.epsilon,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial,
          .norm_initial = config.norm_initial};
}

MlpConfig mlp_config(const TransformerLayerConfig& config) {
  return {.name = config.name + ".mlp",
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .ffn_hidden_size = config.ffn_hidden_size,
          .activation = config.activation,
          .gated = config.gated,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

/// Returns the dropout of a residual branch. Its tensor is replicated, or split by tokens with
/// sequence_parallel.
ParallelDropoutConfig dropout_config(const TransformerLayerConfig& config, const char* name) {
  return {.name = config.name + name,
          .probability = config.hidden_dropout,
          .region = config.sequence_parallel ? Region::sharded : Region::replicated};
}

/// Returns the number of tokens of a sequence that each rank has. A router needs to know which of its tokens
/// are of one sequence.
std::int64_t rows_of_sequence(const TransformerLayerConfig& config, int tp, int cp) {
  const std::int64_t length = config.sequence_length / cp;
  if (!config.sequence_parallel) return length;
  if (!config.experts || length % tp == 0) return length / tp;
  refuse({.code = "sequence_split",
          .option = config.name,
          .numbers = fmt::format("{} tokens of each sequence over {} tensor-parallel ranks", length, tp),
          .rule = "with experts and sequence parallelism, each rank has the same part of every sequence",
          .hint = fmt::format("--seq-length {}", (length / tp + 1) * tp * cp)});
}

}  // namespace

TransformerLayer::TransformerLayer(Rank& rank, const TransformerLayerConfig& config)
    : input_norm_(rank, norm_config(config, ".input_layernorm")),
      attention_dropout_(rank, dropout_config(config, ".self_attn_bda")),
      mlp_norm_(rank, norm_config(config, ".pre_mlp_layernorm")),
      rows_of_sequence_(rows_of_sequence(config, rank.groups.get("tp").size(), rank.groups.get("cp").size())),
      mlp_dropout_(rank, dropout_config(config, ".mlp_bda")) {
  if (config.latent)
    latent_.emplace(rank, latent_config(config));
  else
    attention_.emplace(rank, attention_config(config));
  if (config.experts)
    experts_.emplace(rank, *config.experts);
  else
    mlp_.emplace(rank, mlp_config(config));
}

std::vector<Parameter*> TransformerLayer::parameters() {
  return joined({input_norm_.parameters(), attention_ ? attention_->parameters() : latent_->parameters(),
                 mlp_norm_.parameters(), mlp_ ? mlp_->parameters() : experts_->parameters()});
}

TransformerLayer::Forward TransformerLayer::forward(const Tensor& input, const LayerPass& pass) {
  const auto normal = input_norm_.forward(input);
  Saved saved;
  saved.input_norm = normal.saved;
  saved.pass = pass.number;
  const Tensor attention = forward_attention(normal.output, pass.number, saved);
  const Tensor middle = add(input, attention_dropout_.forward(attention, pass.number));
  const auto mlp_normal = mlp_norm_.forward(middle);
  saved.mlp_norm = mlp_normal.saved;
  const Tensor output = forward_mlp(mlp_normal.output, pass.counts, saved);
  return {add(middle, mlp_dropout_.forward(output, pass.number)), std::move(saved)};
}

Tensor TransformerLayer::forward_attention(const Tensor& input, std::uint64_t pass, Saved& saved) {
  if (attention_) {
    auto attention = attention_->forward(input, pass);
    saved.attention = std::move(attention.saved);
    return attention.output;
  }
  auto latent = latent_->forward(input, pass);
  saved.latent = std::move(latent.saved);
  return latent.output;
}

Tensor TransformerLayer::backward_attention(const Saved& saved, const Tensor& grad) {
  return attention_ ? attention_->backward(saved.attention, grad) : latent_->backward(*saved.latent, grad);
}

Tensor TransformerLayer::forward_mlp(const Tensor& input, bool counts, Saved& saved) {
  if (mlp_) {
    auto mlp = mlp_->forward(input);
    saved.mlp = std::move(mlp.saved);
    return mlp.output;
  }
  auto experts = experts_->forward(
      input, {.batch_size = input.shape()[0] / rows_of_sequence_, .padding = {}, .counts = counts});
  saved.experts = std::move(experts.saved);
  return experts.output;
}

Tensor TransformerLayer::backward_mlp(const Saved& saved, const Tensor& grad, Ratio aux_loss_scale) {
  return mlp_ ? mlp_->backward(saved.mlp, grad) : experts_->backward(*saved.experts, grad, aux_loss_scale);
}

Tensor TransformerLayer::backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale) {
  const Tensor grad_mlp = backward_mlp(saved, mlp_dropout_.backward(grad_output, saved.pass), aux_loss_scale);
  const Tensor grad_middle = add(grad_output, mlp_norm_.backward(saved.mlp_norm, grad_mlp));
  const Tensor grad_attention =
      backward_attention(saved, attention_dropout_.backward(grad_middle, saved.pass));
  return add(grad_middle, input_norm_.backward(saved.input_norm, grad_attention));
}

}  // namespace sim
