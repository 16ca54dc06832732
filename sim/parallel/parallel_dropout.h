#pragma once

/// Dropout under tensor parallelism. Where ranks hold the same tensor they drop the same elements; where each
/// holds a part of its own (heads; tokens under sequence parallelism) each draws from a stream of its own.
///
/// Shapes  any; the mask is a function of (seed, name, pass, element), and of the rank in a sharded region.
/// Calls   none.
/// Errors  bad_dropout.
/// Exact   forward and backward of the same pass have the same mask; a probability of 0 copies nothing.
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

  /// Another mask in each pass: of a step, of a microbatch.
  Tensor forward(const Tensor& x, std::uint64_t pass) const;
  Tensor backward(const Tensor& grad, std::uint64_t pass) const { return forward(grad, pass); }

 private:
  Ratio probability_;
  KeyedRandom stream_;
};

}  // namespace sim
