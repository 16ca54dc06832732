#pragma once

/// LayerNorm or RMSNorm with replicated parameters. With sequence parallelism each rank normalizes its own
/// tokens, so it has the parameter gradients of these tokens only. A norm of queries or keys has those of the
/// rank's own heads. The parameters are flagged for that, and their gradients are summed over the group at
/// the end of a step (sequence_parallel_grads.h).
///
/// Shapes  input and output [T, H], or [T/tp, H] with sequence_parallel;  weight and bias [H].
/// Calls   none.
/// Exact   Each token has the bits of normalize().
/// Source  Megatron-LM, FusedLayerNorm and its sequence_parallel attribute.

#include <string>

#include "sim/parallel/parameter.h"

namespace sim {

struct ParallelNormConfig {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t hidden_size = 0;
  Norm norm = Norm::layer_norm;
  Ratio epsilon = {1, 100000};
  bool sequence_parallel = false;  // each rank has a part of the rows that are normalized
  Initial initial = {};
};

class ParallelNorm {
 public:
  ParallelNorm(Rank& rank, ParallelNormConfig config);

  struct Saved {
    Tensor input;
    Tensor stats;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return weight_; }
  Parameter& bias() { return bias_; }
  std::vector<Parameter*> parameters();

 private:
  ParallelNormConfig config_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sim
