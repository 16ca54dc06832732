#pragma once

/// The part of a GPT that one chunk of a pipeline rank holds: the embedding on the first stage, layers, and
/// on the last stage the final norm, the output layer and the loss.
///
/// Shapes  tokens and labels [T] i32; between stages [T, H], or [T/tp, H] with sequence_parallel; loss [T],
///         of sums.
/// Calls   those of its layers; with recompute those of a layer's forward once more in backward.
/// Exact   the output layer has the embedding's weight, where they are tied: the Parameter itself on one
///         rank, a copy on another stage (tied_embeddings.h).
/// Source  Megatron-LM, GPTModel with pre_process and post_process.

#include <deque>
#include <optional>
#include <vector>

#include "sim/model/language_model_embedding.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"

namespace sim {

struct GptChunk {
  int first_layer = 0;  // of the model
  int num_layers = 0;
  bool pre_process = true;
  bool post_process = true;
};

/// Tokens are for the first stage, labels for the last.
struct Microbatch {
  Tensor tokens;
  Tensor labels;
};

class GptModel {
 public:
  GptModel(Rank& rank, const GptConfig& config, const GptChunk& chunk);

  struct LayerSaved {
    Tensor input;
    std::optional<TransformerLayer::Saved> saved;  // none: recomputed
  };
  struct Saved {
    LanguageModelEmbedding::Saved embedding;
    std::vector<LayerSaved> layers;
    ParallelNorm::Saved final_layernorm;
    ColumnParallelLinear::Saved output_layer;
    VocabParallelCrossEntropy::Saved loss;
  };
  struct Forward {
    Tensor output;  // of the last stage, the loss of each token
    Saved saved;
  };
  /// `input` is none on the first stage.
  Forward forward(const Tensor& input, const Microbatch& microbatch);
  /// None on the first stage.
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  /// In the order in which forward uses them; a weight that two layers of the chunk have, once.
  std::vector<Parameter*> parameters();
  /// The word embedding, or its copy, where it is tied to that of another stage; else null.
  Parameter* shared_embedding();
  const GptChunk& chunk() const { return chunk_; }

 private:
  Tensor forward_layers(Tensor hidden, Saved& saved);
  Tensor backward_layers(const Saved& saved, Tensor grad);
  bool is_tied() const { return !config_.untie_embeddings_and_output_weights; }

  GptConfig config_;
  GptChunk chunk_;
  std::optional<LanguageModelEmbedding> embedding_;
  std::deque<TransformerLayer> layers_;
  std::optional<ParallelNorm> final_layernorm_;
  std::optional<Parameter> tied_copy_;
  std::optional<ColumnParallelLinear> output_layer_;
  std::optional<VocabParallelCrossEntropy> loss_;
};

}  // namespace sim
