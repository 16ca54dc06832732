#pragma once

/// Dropout under tensor parallelism. In a replicated region all ranks hold the same tensor, and drop the same
/// elements. In a sharded region each rank holds its own part (its heads, or its tokens under sequence
/// parallelism), and draws its mask from its own random stream.
///
/// Shapes  any; the mask is a function of (seed, name, pass, element), and in a sharded region of the rank.
/// Calls   none.
/// Errors  bad_dropout.
/// Exact   forward and backward of one pass use the same mask. With probability 0 the input is returned
///         without a copy.
/// Source  Megatron-LM, tensor_parallel/random.py: the default stream, and the model-parallel stream of seed
///         + 2718 + tp rank.

#include <cstdint>
#include <string>

#include "sim/comm/rank.h"

namespace sim {

enum class Region { replicated, sharded };

struct ParallelDropoutConfig {
  std::string name;
  Ratio probability = {0, 1};
  Region region = Region::replicated;
};

class ParallelDropout {
 public:
  ParallelDropout(Rank& rank, const ParallelDropoutConfig& config);

  /// Each `pass`, such as a microbatch of a step, draws another mask.
  Tensor forward(const Tensor& x, std::uint64_t pass) const;
  Tensor backward(const Tensor& grad, std::uint64_t pass) const { return forward(grad, pass); }

 private:
  Ratio probability_;
  KeyedRandom stream_;
};

}  // namespace sim
