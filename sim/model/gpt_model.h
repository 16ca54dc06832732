#pragma once

/// The part of a GPT that one chunk of a pipeline rank holds: transformer layers, preceded by the embedding
/// on the first stage, and followed by the final norm, the output layer and the loss on the last stage.
///
/// Shapes  tokens and labels [T] i32; between stages [T, H], or [T/tp, H] with sequence_parallel; loss [T],
///         in the dtype of sums.
/// Calls   those of its layers; with recompute, those of each layer's forward again in backward. The counts
///         of auxiliary losses are reduced in the second of these runs alone.
/// Errors  gpt_context: sequences that are cut over another number of ranks than the layout's cp;
///         gpt_documents: packed documents that do not fill a sequence;
///         cp_comm_types: kinds of context parallelism for another number of layers;
///         moe_freq_length: layers of experts that are listed for another number of layers; those of its
///         parts.
/// Exact   If embeddings are tied, the output layer has the embedding's weight: the Parameter itself if both
///         are in one chunk, otherwise a copy on the last stage (tied_embeddings.h).
/// Source  Megatron-LM, GPTModel with pre_process and post_process.

#include <deque>
#include <optional>
#include <vector>

#include "sim/model/language_model_embedding.h"
#include "sim/model/transformer_layer.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"

namespace sim {

struct GptChunk {
  int first_layer = 0;  // its number in the model
  int num_layers = 0;
  bool pre_process = true;
  bool post_process = true;
};

/// The inputs of a microbatch. Only the first stage has tokens, and only the last stage has labels.
struct Microbatch {
  Tensor tokens;
  Tensor labels;
};

class GptModel {
 public:
  GptModel(Rank& rank, const GptConfig& config, const GptChunk& chunk);

  struct LayerSaved {
    Tensor input;
    std::optional<TransformerLayer::Saved> saved;  // empty with recompute: backward runs forward again
  };
  struct Saved {
    LanguageModelEmbedding::Saved embedding;
    std::vector<LayerSaved> layers;
    ParallelNorm::Saved final_layernorm;
    ColumnParallelLinear::Saved output_layer;
    VocabParallelCrossEntropy::Saved loss;
  };
  struct Forward {
    Tensor output;  // hidden states; on the last stage, the loss of each token
    Saved saved;
  };
  /// Runs the chunk. `input` is an empty Tensor() on the first stage.
  Forward forward(const Tensor& input, const Microbatch& microbatch);
  /// Returns the gradient of the input, which is an empty Tensor() on the first stage.
  /// `aux_loss_scale` is the factor of the auxiliary losses of experts.
  Tensor backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale = {1, 1});

  /// The parameters, in the order in which forward uses them. A weight that two layers of the chunk share
  /// is listed once.
  std::vector<Parameter*> parameters();
  /// The word embedding, or its copy, if it is tied to a weight on another stage; otherwise null.
  Parameter* shared_embedding();
  /// The routers of the chunk's layers, in their order.
  std::vector<TopKRouter*> routers();
  const GptChunk& chunk() const { return chunk_; }

 private:
  int number_of(std::size_t layer) const { return chunk_.first_layer + static_cast<int>(layer); }
  Tensor forward_layers(Tensor hidden, Saved& saved);
  Tensor backward_layers(const Saved& saved, Tensor grad, Ratio aux_loss_scale);
  bool is_tied() const { return !config_.untie_embeddings_and_output_weights; }

  Rank& rank_;
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
