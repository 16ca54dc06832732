#pragma once

/// What tokens become on the first stage: their rows of the word embedding, and where positions are learned,
/// those of their places.
///
/// Shapes  tokens [T] i32;  word_embeddings [V/tp, H], position_embeddings [S, H] replicated;  output [T, H],
///         or [T/tp, H] with sequence_parallel.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel and no learned positions a
///         reduce_scatter in its place. backward: none; with sequence_parallel one all_gather of [T/tp, H].
/// Exact   each rank has the whole gradient of the positions: they are added before the tokens are split.
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
  bool scatters_;  // after the positions
  VocabParallelEmbedding words_;
  std::optional<Parameter> positions_;
  Tensor places_;  // of the rows, [T] i32
};

}  // namespace sim
