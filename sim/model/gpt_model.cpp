#include "sim/model/gpt_model.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/comm/work_parts.h"

namespace sim {

namespace {

void require_cut_of_sequences(const Rank& rank, const GptConfig& config) {
  Refusals refusals;
  refusals.keep([&] {
    const std::int64_t length = config.sequence_cut().length();
    if (length == config.seq_length) return;
    refuse({.code = "gpt_documents",
            .option = "--seq-length",
            .numbers = fmt::format("documents of {} tokens in sequences of {}", length, config.seq_length),
            .rule = "the packed documents of a sequence fill it",
            .hint = fmt::format("--seq-length {}, or another document", length)});
  });
  refusals.keep([&] {
    if (rank.layout.cp == config.context_parallel_size) return;
    refuse({.code = "gpt_context",
            .option = "--context-parallel-size",
            .numbers = fmt::format("sequences are cut over {} ranks in a layout with cp {}",
                                   config.context_parallel_size, rank.layout.cp),
            .rule = "a sequence is cut over the context-parallel ranks of the layout",
            .hint = "the size of the layout in GptConfig"});
  });
  refusals.throw_if_any();
}

void require_layers_of_experts(const GptConfig& config) {
  const std::vector<std::int64_t>& layers = config.experts.moe_layer_freq.entries;
  if (layers.empty() || std::ssize(layers) == config.num_layers) return;
  refuse({.code = "moe_freq_length",
          .option = "--moe-layer-freq",
          .numbers = fmt::format("{} entries for {} layers", layers.size(), config.num_layers),
          .rule = "the list says of each layer whether it has experts",
          .hint = "as many entries as --num-layers, or none"});
}

void require_cp_comm_types(const GptConfig& config) {
  const std::vector<CpCommType>& types = config.cp_comm_types;
  if (types.size() <= 1 || std::ssize(types) == config.num_layers) return;
  refuse({.code = "cp_comm_types",
          .option = "--cp-comm-type",
          .numbers = fmt::format("{} entries for {} layers", types.size(), config.num_layers),
          .rule = "all layers communicate in the same way, or the list says how each of them does",
          .hint = "one entry, or as many as --num-layers"});
}

LayerPlace place_of_layer(int number) { return {fmt::format("decoder.layers.{}", number), number}; }

ParallelNormConfig final_norm_config(const GptConfig& config) {
  return {.name = "decoder.final_layernorm",
          .dtype = config.dtype,
          .hidden_size = config.hidden_size,
          .norm = config.normalization,
          .epsilon = config.norm_epsilon,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.norm_initial};
}

ColumnParallelLinearConfig output_config(const GptConfig& config) {
  return {.name = "output_layer",
          .dtype = config.dtype,
          .input_size = config.hidden_size,
          .output_size = config.padded_vocab_size,
          .bias = false,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

/// Makes the output layer's copy of the embedding of another stage. It begins as zeros, and tie_embeddings
/// gives it the values of the embedding.
Parameter copy_of_embedding(Rank& rank, const GptConfig& config) {
  const Communicator& tp = rank.groups.get("tp");
  Parameter copy = make_parameter(rank, "output_layer.weight", config.dtype,
                                  {config.padded_vocab_size, config.hidden_size},
                                  {.dim = 0, .place = tp.rank(), .size = tp.size()}, {.scale = {0, 1}});
  copy.attributes.shared_embedding = true;
  copy.attributes.copy_of = "embedding.word_embeddings.weight";
  return copy;
}

}  // namespace

GptModel::GptModel(Rank& rank, const GptConfig& config, const GptChunk& chunk)
    : rank_(rank), config_(config), chunk_(chunk) {
  require_cut_of_sequences(rank, config_);
  require_cp_comm_types(config_);
  require_layers_of_experts(config_);
  if (chunk_.pre_process) {
    embedding_.emplace(rank, config_);
    embedding_->word_embeddings().attributes.shared_embedding = is_tied() && !chunk_.post_process;
  }
  for (int i = 0; i < chunk_.num_layers; ++i)
    layers_.emplace_back(rank, config_, place_of_layer(chunk_.first_layer + i));
  if (!chunk_.post_process) return;
  final_layernorm_.emplace(rank, final_norm_config(config_));
  if (is_tied() && !chunk_.pre_process) tied_copy_ = copy_of_embedding(rank, config_);
  Parameter* tied = nullptr;
  if (is_tied()) tied = chunk_.pre_process ? &embedding_->word_embeddings() : &*tied_copy_;
  output_layer_.emplace(rank, output_config(config_), tied);
  loss_.emplace(
      rank, VocabParallelCrossEntropyConfig{.vocabulary = config_.vocab_size, .ignored_id = kIgnoredLabel});
}

GptModel::Forward GptModel::forward(const Tensor& input, const Microbatch& microbatch) {
  Saved saved;
  Tensor hidden = input;
  if (embedding_) {
    auto embedded = embedding_->forward(microbatch.tokens);
    saved.embedding = std::move(embedded.saved);
    hidden = embedded.output;
  }
  hidden = forward_layers(hidden, saved);
  if (!chunk_.post_process) return {hidden, std::move(saved)};
  auto normal = final_layernorm_->forward(hidden);
  auto logits = output_layer_->forward(normal.output);
  auto loss = loss_->forward(logits.output, microbatch.labels);
  saved.final_layernorm = std::move(normal.saved);
  saved.output_layer = std::move(logits.saved);
  saved.loss = std::move(loss.saved);
  return {loss.loss, std::move(saved)};
}

Tensor GptModel::forward_layers(Tensor hidden, Saved& saved) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    begin_layer(rank_, number_of(i));
    auto forward = layers_[i].forward(hidden, LayerPass{.counts = !config_.recompute});
    LayerSaved kept{.input = hidden, .saved = std::nullopt};
    if (!config_.recompute) kept.saved = std::move(forward.saved);
    saved.layers.push_back(std::move(kept));
    hidden = forward.output;
  }
  end_layer(rank_);
  return hidden;
}

Tensor GptModel::backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale) {
  Tensor grad = grad_output;
  if (chunk_.post_process) {
    grad = loss_->backward(saved.loss, grad);
    grad = output_layer_->backward(saved.output_layer, grad);
    grad = final_layernorm_->backward(saved.final_layernorm, grad);
  }
  grad = backward_layers(saved, grad, aux_loss_scale);
  if (!embedding_) return grad;
  embedding_->backward(saved.embedding, grad);
  return {};
}

Tensor GptModel::backward_layers(const Saved& saved, Tensor grad, Ratio aux_loss_scale) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    begin_layer(rank_, number_of(i));
    const LayerSaved& kept = saved.layers[i];
    grad = layers_[i].backward(kept.saved ? *kept.saved : layers_[i].forward(kept.input).saved, grad,
                               aux_loss_scale);
  }
  end_layer(rank_);
  return grad;
}

std::vector<Parameter*> GptModel::parameters() {
  std::vector<Parameter*> all;
  const auto take = [&](const std::vector<Parameter*>& part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  if (embedding_) take(embedding_->parameters());
  for (TransformerLayer& layer : layers_) take(layer.parameters());
  if (final_layernorm_) take(final_layernorm_->parameters());
  if (tied_copy_) all.push_back(&*tied_copy_);
  if (output_layer_) take(output_layer_->parameters());
  return all;
}

std::vector<TopKRouter*> GptModel::routers() {
  std::vector<TopKRouter*> all;
  for (TransformerLayer& layer : layers_)
    if (layer.experts() != nullptr) all.push_back(&layer.experts()->router());
  return all;
}

Parameter* GptModel::shared_embedding() {
  if (!is_tied() || chunk_.pre_process == chunk_.post_process) return nullptr;
  return tied_copy_ ? &*tied_copy_ : &embedding_->word_embeddings();
}

}  // namespace sim
