#pragma once

/// The learning rate of a step. It rises linearly from `initial` to `peak` during the warm-up; then it stays
/// constant, or falls to `least` along half a cosine.
///
/// Shapes  Steps count from 0. The rate is a ratio of whole numbers with denominator 2^30, which every
///         arithmetic holds exactly.
/// Errors  learning_rate: negative steps, or a warm-up that does not end before the decay.
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
  std::int64_t decay_steps = 0;  // the step at which the decay ends; counts the warm-up
  Decay decay = Decay::constant;
};

Ratio learning_rate(const LearningRateConfig& config, std::int64_t step);

}  // namespace sim
