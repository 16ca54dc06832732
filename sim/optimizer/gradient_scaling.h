#pragma once

/// What gradients are multiplied by before data-parallel ranks reduce them, and how they reduce: one function
/// of the layout.
///
///   default            1/n before a sum, n = the replicas of dense parameters (dp * cp), for experts too:
///                      each token's gradient has already come to its expert, so their sum over edp alone is
///                      whole
///   average in the     an average; experts, of whose n / e shares edp averages only e, are multiplied by e/n
///                      before
///   collective
///   per-token loss     1 before a sum; all are divided by the number of tokens of the whole batch afterwards
///
/// Errors  gradient_scaling: an average in the collective with a per-token loss; sizes below 1.
/// Source  Megatron-LM, DistributedDataParallel and finalize_model_grads.

#include "sim/tensor/device.h"

namespace sim {

struct ScalingSetting {
  int dp_cp = 1;  // n
  int edp = 1;    // e
  bool average_in_collective = false;
  bool per_token_loss = false;
};

struct GradientScaling {
  Ratio before = {1, 1};
  ReduceOp reduce = ReduceOp::sum;
  bool operator==(const GradientScaling& other) const {
    return before.numerator == other.before.numerator && before.denominator == other.before.denominator &&
           reduce == other.reduce;
  }
};

GradientScaling gradient_scaling(const ScalingSetting& setting, bool is_expert);

}  // namespace sim
