#pragma once

/// The learning rate of an update, computed without sim/optimizer: a straight line from the initial rate to
/// the peak over the warm-up, then the peak, or half a cosine down to the least rate.
///
/// Shapes  `updates` counts the updates before this one; skipped steps are not updates.
/// Exact   the rate is rounded to a multiple of 2^-30, as the optimizer that is judged receives it.
/// Source  Megatron-LM, OptimizerParamScheduler.get_lr; Loshchilov and Hutter 2017, equation 5.

#include <cmath>

#include "verify/reference/fraction.h"

namespace verify::reference {

struct LearningRateSetting {
  double initial = 0;
  double peak = 0;
  double least = 0;
  std::int64_t warmup = 0;     // updates
  std::int64_t decay_end = 0;  // updates, the warm-up included; 0: the rate stays at its peak
};

inline Fraction learning_rate(const LearningRateSetting& setting, std::int64_t updates) {
  double rate = setting.peak;
  if (updates < setting.warmup) {
    const double left = static_cast<double>(setting.warmup - updates);
    rate = setting.peak - (setting.peak - setting.initial) * left / static_cast<double>(setting.warmup);
  } else if (setting.decay_end > 0) {
    const double length = static_cast<double>(setting.decay_end - setting.warmup);
    const double angle = std::fmin(static_cast<double>(updates - setting.warmup) / length, 1.0) * M_PI;
    // cos^2 of half the angle is (1 + cos) / 2.
    rate = setting.least + (setting.peak - setting.least) * std::cos(angle / 2) * std::cos(angle / 2);
  }
  return {std::llround(std::ldexp(rate, 30)), std::int64_t{1} << 30};
}

}  // namespace verify::reference
