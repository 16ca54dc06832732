#pragma once

/// The factor that losses are multiplied by, so that small gradients survive in a narrow dtype: smaller after steps whose gradients
/// were not finite, larger after a long run of good ones.
///
/// Shapes  a power of two as a ratio; constant with growth_interval 0.
/// Exact   whole numbers alone decide; the same on every rank that saw the same flags.
/// Source  Megatron-LM, DynamicGradScaler: hysteresis counts down with each bad step and is full again only after a growth.

#include <cstdint>

#include "sim/tensor/device.h"

namespace sim {

struct LossScaleConfig {
  int initial_power = 0;  // scale = 2^power
  int least_power = 0;
  int growth_interval = 0;  // steps; 0: the scale never changes
  int hysteresis = 1;       // bad steps before the scale is halved
};

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config)
      : config_(config), power_(config.initial_power), hysteresis_left_(config.hysteresis) {}

  Ratio scale() const { return {std::int64_t{1} << power_, 1}; }
  Ratio inverse() const { return {1, std::int64_t{1} << power_}; }
  void update(bool found_nonfinite);

 private:
  LossScaleConfig config_;
  int power_;
  int good_steps_ = 0;
  int hysteresis_left_;
};

}  // namespace sim
