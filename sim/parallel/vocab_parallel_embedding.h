#pragma once

/// Rows of a table by token id, the table's rows split over the tensor-model-parallel group. A rank looks up
/// the ids it holds, puts zeros for all others, and the sum over the group is the embedding.
///
/// Shapes  ids [T] i32, global;  weight [V/tp, H], ids r V/tp, ... ;  output [T, H] replicated, or [T/tp, H]
///         with sequence_parallel. V is the padded vocabulary.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel one reduce_scatter. backward: none;
///         with sequence_parallel one all_gather of [T/tp, H].
/// Errors  partition when V does not divide by tp; token_id, outside of the vocabulary.
/// Exact   output equals the serial layer bit for bit (all terms but one are zeros), as do gradients.
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
  /// Adds to main_grad of the weight.
  void backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return weight_; }
  /// The first id of this rank.
  std::int64_t first_id() const { return tp_.rank() * (config_.vocabulary / tp_.size()); }

 private:
  VocabParallelEmbeddingConfig config_;
  Communicator& tp_;
  Parameter weight_;
};

/// Refuses ids outside of 0 to below vocabulary, but for one that is ignored.
void check_token_ids(const Tensor& ids, std::int64_t vocabulary, std::int64_t ignored_id,
                     const std::string& user);

}  // namespace sim
