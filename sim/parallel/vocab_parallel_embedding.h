#pragma once

/// An embedding table whose rows are split over the tensor-model-parallel group. Each rank looks up the token
/// ids it holds and writes zeros for all others; the sum over the group is the embedding.
///
/// Shapes  ids [T] i32, global;  weight [V/tp, H]: on rank r the rows of the ids from r V/tp to below
///         (r + 1) V/tp;  output [T, H] replicated, or [T/tp, H] with sequence_parallel. V is the padded
///         vocabulary.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel one reduce_scatter. backward: none;
///         with sequence_parallel one all_gather of [T/tp, H].
/// Errors  partition, when V is not a multiple of tp; token_id, when an id is outside of the vocabulary.
/// Exact   output and gradients equal those of the serial layer bit for bit: all terms of the sum but one are
///         zeros.
/// Source  Megatron-LM VocabParallelEmbedding.

#include <string>

#include "sim/parallel/parameter.h"

namespace sim {

struct VocabParallelEmbeddingConfig {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t vocabulary = 0;   // V, padded
  std::int64_t hidden_size = 0;  // H
  bool sequence_parallel = false;
  Initial initial = {};
};

class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(Rank& rank, VocabParallelEmbeddingConfig config);

  struct Saved {
    Tensor ids;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& ids);
  /// Adds the gradient of the table to main_grad of the weight.
  void backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return weight_; }
  /// Returns the first id whose row this rank holds.
  std::int64_t first_id() const { return tp_.rank() * (config_.vocabulary / tp_.size()); }

 private:
  VocabParallelEmbeddingConfig config_;
  Communicator& tp_;
  Parameter weight_;
};

/// Refuses `ids` that are negative or not below `vocabulary`, except `ignored_id`. The message names `user`,
/// the layer.
void require_token_ids(const Tensor& ids, std::int64_t vocabulary, std::int64_t ignored_id,
                       const std::string& user);

}  // namespace sim
