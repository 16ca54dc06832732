#pragma once

/// What kernels are told beside their tensors: factors, which function, which part.
///
/// Exact   a ratio is rounded to the dtype by the kernel, as its line in device.h says.

#include <cstdint>

namespace sim {

/// A factor that every arithmetic can hold exactly, the field included: 1/3. The numerator is at most 2^31
/// either way, the denominator from 1 to 2^31; in the field no multiple of one of its primes.
struct Ratio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
};

/// One step of Adam, or AdamW.
struct AdamStep {
  Ratio learning_rate = {1, 1000};
  Ratio beta1 = {9, 10};
  Ratio beta2 = {999, 1000};
  Ratio epsilon = {1, 100'000'000};
  Ratio weight_decay = {0, 1};
  bool decoupled = true;  // AdamW: the decay has no part in the moments
  std::int64_t step = 1;  // from 1
};

/// Elements begin to end - 1 are folded starting with input `first`, then first + 1, ..., around to first -
/// 1.
struct FoldSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;
  std::int64_t shift = 0;  // element i of an output comes from element i + shift of the inputs
};

enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, silu };
enum class Norm : std::uint8_t { layer_norm, rms_norm };

/// Which tokens a vocabulary-parallel loss sees, and how it is smoothed.
struct TokenLoss {
  std::int64_t first_id = 0;     // of this rank's columns
  std::int64_t columns = 0;      // of these, the ones that are no padding
  std::int64_t vocabulary = 0;   // of all ranks, without padding
  std::int64_t ignored_id = -1;  // such targets have no loss and no gradient
  Ratio smoothing = {0, 1};      // s of (1 - s) nll - s mean(log p)
};

}  // namespace sim
