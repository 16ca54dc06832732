#pragma once

/// The factor that gradients are multiplied by before data-parallel ranks reduce them, and the reduction:
/// both are a function of the layout and the settings.
///
///   default            1/n before a sum, where n = dp * cp is the number of replicas of dense parameters.
///                      This holds for experts too: an expert has already received the gradients of all its
///                      tokens, so the sum over edp alone is complete
///   average in the     an average; gradients of experts are multiplied by e/n before, because edp averages
///   collective         only e of their n shares
///   per-token loss     1 before a sum; all are divided by the number of tokens of the whole batch afterwards
///
/// Exact   the factors are exact. Megatron also refuses an average in the collective where (e/n)/e, in
///         doubles, is not 1/n, such as e = 11 of n = 33; the layout is right, and is accepted here.
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
  bool operator==(const GradientScaling&) const = default;
};

GradientScaling gradient_scaling(const ScalingSetting& setting, bool is_expert);

}  // namespace sim
