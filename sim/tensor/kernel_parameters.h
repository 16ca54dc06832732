#pragma once

/// The parameters of kernels that are no tensors: ratios, segments, masks of attention, and the options of
/// Adam, activations, norms and losses.
///
/// Exact   a kernel rounds a ratio to the dtype, as device.h says at each kernel.

#include <cstdint>

namespace sim {

/// A factor that every arithmetic can hold exactly, including the field: 1/3, for example. The numerator
/// is at most 2^31 in magnitude, and the denominator is from 1 to 2^31. In the field the denominator may
/// not be a multiple of one of the primes.
struct Ratio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  /// 1/2 and 2/4 are two ratios.
  bool operator==(const Ratio&) const = default;
};

/// One step of Adam, or AdamW.
struct AdamStep {
  Ratio learning_rate = {1, 1000};
  Ratio beta1 = {9, 10};
  Ratio beta2 = {999, 1000};
  Ratio epsilon = {1, 100'000'000};
  Ratio weight_decay = {0, 1};
  bool decoupled = true;  // AdamW: weight decay is kept out of the moments
  std::int64_t step = 1;  // steps count from 1
};

/// Elements begin to end - 1 are folded starting with input `first`, then first + 1, ..., wrapping around
/// to first - 1.
struct FoldSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;
  std::int64_t shift = 0;  // element i of an output comes from element i + shift of the inputs
};

/// Which keys a query sees. Of q queries and k keys, query i has its place at key i + k - q.
struct SeenKeys {
  bool causal = false;       // none after its place
  std::int64_t window = -1;  // with a causal mask: this many before its place, and the one there; -1: all
};

enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, silu };
enum class Comparison : std::uint8_t { less, equal, greater };
enum class Norm : std::uint8_t { layer_norm, rms_norm };

/// Which token ids a vocabulary-parallel loss covers on this rank, and how the loss is smoothed.
struct TokenLoss {
  std::int64_t first_id = 0;     // token id of this rank's first column
  std::int64_t columns = 0;      // number of this rank's columns that are not padding
  std::int64_t vocabulary = 0;   // columns of all ranks together, without padding
  std::int64_t ignored_id = -1;  // a target with this id has no loss and no gradient
  Ratio smoothing = {0, 1};      // s in (1 - s) nll - s mean(log p)
};

}  // namespace sim
