#include "sim/model/transformer_layer.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

ParallelNormConfig norm_config(const GptConfig& config, const std::string& name) {
  return {.name = name,
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .norm = config.normalization,
          .epsilon = config.norm_epsilon,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.norm_initial};
}

MlpConfig mlp_config(const GptConfig& config, const std::string& name) {
  return {.name = name,
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .ffn_hidden_size = config.ffn_hidden_size,
          .activation = config.activation,
          .gated = config.gated,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

/// The experts of a layer, or nothing if it has an MLP.
std::optional<MoeLayerConfig> experts_config(const GptConfig& config, const LayerPlace& place) {
  const GptExperts& experts = config.experts;
  if (!experts.are_in(place.number)) return std::nullopt;
  const std::string name = place.name + ".mlp";
  const GatedActivation activation{.function = config.activation, .gated = config.gated};
  MoeLayerConfig layer{.router = {.name = name + ".router",
                                  .dtype = config.dtype,
                                  .hidden_size = config.hidden_size,
                                  .num_experts = experts.num_experts,
                                  .routing = experts.routing,
                                  .expert_bias = experts.expert_bias,
                                  .aux_losses = experts.aux_losses,
                                  .z_loss_coefficient = experts.z_loss_coefficient,
                                  .per_token_loss = config.per_token_loss,
                                  .token_dropping = experts.token_dropping,
                                  .sequence_parallel = config.sequence_parallel,
                                  .initial = config.initial},
                       .experts = {.name = name + ".experts",
                                   .dtype = config.dtype,
                                   .hidden_size = config.hidden_size,
                                   .ffn_hidden_size = experts.moe_ffn_hidden_size,
                                   .activation = activation,
                                   .bias = config.bias,
                                   .initial = config.initial},
                       .dispatcher = experts.dispatcher};
  if (experts.shared_expert_intermediate_size == 0) return layer;
  layer.shared_experts = {.mlp = {.name = name + ".shared_experts",
                                  .dtype = config.dtype,
                                  .hidden_size = config.hidden_size,
                                  .ffn_hidden_size = experts.shared_expert_intermediate_size,
                                  .activation = config.activation,
                                  .gated = config.gated,
                                  .bias = false,
                                  .sequence_parallel = config.sequence_parallel,
                                  .initial = config.initial},
                          .gate = experts.shared_expert_gate};
  return layer;
}

/// Returns the dropout of a residual branch. Its tensor is replicated, or split by tokens with
/// sequence_parallel.
ParallelDropoutConfig dropout_config(const GptConfig& config, const std::string& name) {
  return {.name = name,
          .probability = config.hidden_dropout,
          .region = config.sequence_parallel ? Region::sharded : Region::replicated};
}

/// Returns the number of tokens of a sequence that each rank has. A router needs to know which of its tokens
/// are of one sequence.
std::int64_t rows_of_sequence(const GptConfig& config, const LayerPlace& place, int tp, int cp) {
  const std::int64_t length = config.seq_length / cp;
  if (!config.sequence_parallel) return length;
  if (!config.experts.are_in(place.number) || length % tp == 0) return length / tp;
  refuse({.code = "sequence_split",
          .option = place.name,
          .numbers = fmt::format("{} tokens of each sequence over {} tensor-parallel ranks", length, tp),
          .rule = "with experts and sequence parallelism, each rank has the same part of every sequence",
          .hint = fmt::format("--seq-length {}", (length / tp + 1) * tp * cp)});
}

}  // namespace

TransformerLayer::TransformerLayer(Rank& rank, const GptConfig& config, const LayerPlace& place)
    : input_norm_(rank, norm_config(config, place.name + ".input_layernorm")),
      attention_dropout_(rank, dropout_config(config, place.name + ".self_attn_bda")),
      mlp_norm_(rank, norm_config(config, place.name + ".pre_mlp_layernorm")),
      rows_of_sequence_(
          rows_of_sequence(config, place, rank.groups.get("tp").size(), rank.groups.get("cp").size())),
      mlp_dropout_(rank, dropout_config(config, place.name + ".mlp_bda")) {
  const LayerPlace of_attention{place.name + ".self_attention", place.number};
  if (config.latent)
    latent_.emplace(rank, config, of_attention);
  else
    attention_.emplace(rank, config, of_attention);
  if (const auto experts = experts_config(config, place))
    experts_.emplace(rank, *experts);
  else
    mlp_.emplace(rank, mlp_config(config, place.name + ".mlp"));
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
