#pragma once

/// The learning rate of a step: from `initial` to `peak` in a straight line while it warms up, then constant,
/// or down to `least` along half a cosine.
///
/// Shapes  steps count from 0; the rate is a ratio of whole numbers (a denominator of 2^30 but at the ends),
///         which every arithmetic holds exactly.
/// Errors  learning_rate: negative steps, more warm-up than steps.
/// Source  Loshchilov and Hutter 2017; Megatron-LM, OptimizerParamScheduler.

#include <cstdint>

#include "sim/tensor/device.h"

namespace sim {

enum class Decay { constant, cosine };

struct LearningRateConfig {
  double initial = 0;
  double peak = 0;
  double least = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // with the warm-up
  Decay decay = Decay::constant;
};

Ratio learning_rate(const LearningRateConfig& config, std::int64_t step);

}  // namespace sim
