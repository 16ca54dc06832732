#pragma once

/// The embedding of tokens on the first stage: each token's row of the word embedding, plus, if positions are
/// learned, the row of its position.
///
/// Shapes  tokens [T] i32;  word_embeddings [V/tp, H], position_embeddings [S, H] replicated;  output [T, H],
///         or [T/tp, H] with sequence_parallel.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel and no learned positions, a
///         reduce_scatter in its place. backward: none; with sequence_parallel one all_gather of [T/tp, H].
/// Exact   Positions are added before the tokens are split over tp, so each rank has their whole gradient. A
///         context-parallel rank adds the positions of its own tokens, and has their term of the gradient.
/// Source  Megatron-LM, LanguageModelEmbedding.

#include <optional>

#include "sim/model/gpt_config.h"
#include "sim/parallel/vocab_parallel_embedding.h"

namespace sim {

class LanguageModelEmbedding {
 public:
  LanguageModelEmbedding(Rank& rank, const GptConfig& config);

  using Saved = VocabParallelEmbedding::Saved;
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& tokens);
  void backward(const Saved& saved, const Tensor& grad_output);

  Parameter& word_embeddings() { return words_.weight(); }
  std::vector<Parameter*> parameters();

 private:
  Communicator& tp_;
  bool scatters_;  // whether forward splits the tokens after it has added the positions
  VocabParallelEmbedding words_;
  std::optional<Parameter> positions_;
  Tensor places_;  // the position of each row in its sequence, [T] i32
};

}  // namespace sim
