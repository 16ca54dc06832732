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

inline constexpr int kMostLossScalePower = 30;

struct LossScaleConfig {
  int initial_power = 0;  // scale = 2^power
  int least_power = 0;
  int growth_interval = 0;  // steps; 0: the scale never changes
  int hysteresis = 1;       // bad steps before the scale is halved
};

/// What the steps so far have made of it: what a checkpoint keeps.
struct LossScaleState {
  int power = 0;
  int good_steps = 0;
  int hysteresis_left = 1;
  bool operator==(const LossScaleState&) const = default;
};

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config)
      : config_(config), state_{.power = config.initial_power, .hysteresis_left = config.hysteresis} {}

  Ratio scale() const { return {std::int64_t{1} << state_.power, 1}; }
  Ratio inverse() const { return {1, std::int64_t{1} << state_.power}; }
  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }
  void update(bool found_nonfinite);

 private:
  LossScaleConfig config_;
  LossScaleState state_;
};

}  // namespace sim
