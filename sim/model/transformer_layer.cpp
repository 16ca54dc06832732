#include "sim/model/transformer_layer.h"

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
          .rotary_base = config.rotary_base,
          .causal = config.causal,
          .attention_dropout = config.attention_dropout,
          .bias = config.bias,
          .add_qkv_bias = config.add_qkv_bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
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

}  // namespace

TransformerLayer::TransformerLayer(Rank& rank, const TransformerLayerConfig& config)
    : input_norm_(rank, norm_config(config, ".input_layernorm")),
      attention_(rank, attention_config(config)),
      attention_dropout_(rank, dropout_config(config, ".self_attn_bda")),
      mlp_norm_(rank, norm_config(config, ".pre_mlp_layernorm")),
      mlp_(rank, mlp_config(config)),
      mlp_dropout_(rank, dropout_config(config, ".mlp_bda")) {}

std::vector<Parameter*> TransformerLayer::parameters() {
  return joined(
      {input_norm_.parameters(), attention_.parameters(), mlp_norm_.parameters(), mlp_.parameters()});
}

TransformerLayer::Forward TransformerLayer::forward(const Tensor& input, std::uint64_t pass) {
  const auto normal = input_norm_.forward(input);
  const auto attention = attention_.forward(normal.output, pass);
  const Tensor middle = add(input, attention_dropout_.forward(attention.output, pass));
  const auto mlp_normal = mlp_norm_.forward(middle);
  const auto mlp = mlp_.forward(mlp_normal.output);
  return {add(middle, mlp_dropout_.forward(mlp.output, pass)),
          {normal.saved, attention.saved, mlp_normal.saved, mlp.saved, pass}};
}

Tensor TransformerLayer::backward(const Saved& saved, const Tensor& grad_output) {
  const Tensor grad_mlp = mlp_.backward(saved.mlp, mlp_dropout_.backward(grad_output, saved.pass));
  const Tensor grad_middle = add(grad_output, mlp_norm_.backward(saved.mlp_norm, grad_mlp));
  const Tensor grad_attention =
      attention_.backward(saved.attention, attention_dropout_.backward(grad_middle, saved.pass));
  return add(grad_middle, input_norm_.backward(saved.input_norm, grad_attention));
}

}  // namespace sim
