#include "sim/model/language_model_embedding.h"

#include "sim/parallel/mappings.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

VocabParallelEmbeddingConfig words_config(const GptConfig& config) {
  return {.name = "embedding.word_embeddings",
          .dtype = config.dtype,
          .vocabulary = config.padded_vocab_size,
          .hidden_size = config.hidden_size,
          .sequence_parallel = config.sequence_parallel && !config.has_learned_positions(),
          .initial = config.initial};
}

Tensor places_of_rows(Rank& rank, const GptConfig& config) {
  std::vector<std::int32_t> places;
  for (const std::int64_t position : config.sequence_cut().positions_of(config.context_parallel_rank(rank)))
    places.insert(places.end(), static_cast<std::size_t>(config.micro_batch_size),
                  static_cast<std::int32_t>(position));
  return from_host(rank.device, DType::i32, {config.tokens()}, std::as_bytes(std::span(places)));
}

}  // namespace

LanguageModelEmbedding::LanguageModelEmbedding(Rank& rank, const GptConfig& config)
    : tp_(rank.groups.get("tp")),
      scatters_(config.sequence_parallel && config.has_learned_positions()),
      words_(rank, words_config(config)) {
  if (!config.has_learned_positions()) return;
  positions_ = make_parameter(rank, "embedding.position_embeddings.weight", config.dtype,
                              {config.positions(), config.hidden_size}, {}, config.initial);
  places_ = places_of_rows(rank, config);
}

LanguageModelEmbedding::Forward LanguageModelEmbedding::forward(const Tensor& tokens) {
  auto words = words_.forward(tokens);
  if (!positions_) return {words.output, words.saved};
  Tensor output = add(words.output, lookup(positions_->value, places_, 0));
  if (scatters_)
    output = kScatterToSequenceParallelRegion.forward(output, tp_, "language_model_embedding.forward");
  return {output, words.saved};
}

void LanguageModelEmbedding::backward(const Saved& saved, const Tensor& grad_output) {
  Tensor grad = grad_output;
  if (scatters_)
    grad = kScatterToSequenceParallelRegion.backward(grad, tp_, "language_model_embedding.backward");
  if (positions_) add_to_rows(grad, places_, 0, positions_->main_grad);
  words_.backward(saved, grad);
}

std::vector<Parameter*> LanguageModelEmbedding::parameters() {
  std::vector<Parameter*> all = {&words_.weight()};
  if (positions_) all.push_back(&*positions_);
  return all;
}

}  // namespace sim
