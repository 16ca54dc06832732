#pragma once

/// The factor that losses are multiplied by, so that small gradients survive in a narrow dtype. It shrinks
/// after steps whose gradients are not finite, and grows after a long run of good steps.
///
/// Shapes  a power of two, as a ratio; constant if growth_interval is 0.
/// Errors  loss_scale: powers not from 0 to 30, a least above the initial one, a negative interval, or a
///         hysteresis below 1.
/// Exact   Only whole numbers decide, so the scale is the same on every rank that saw the same flags.
/// Source  Megatron-LM, DynamicGradScaler: hysteresis counts down with each bad step, and is reset only when
///         the scale grows.

#include <cstdint>

#include "sim/tensor/device.h"

namespace sim {

inline constexpr int kMostLossScalePower = 30;
/// The number of bad steps below zero at which the count of hysteresis stops.
inline constexpr int kMostBadSteps = 1'000'000;

struct LossScaleConfig {
  int initial_power = 0;  // scale = 2^power
  int least_power = 0;
  int growth_interval = 0;  // steps; 0: the scale never changes
  int hysteresis = 1;       // bad steps until the scale is halved
};

/// The state of a loss scale after the steps so far. A checkpoint keeps it.
struct LossScaleState {
  int power = 0;
  int good_steps = 0;
  int hysteresis_left = 1;
  bool operator==(const LossScaleState&) const = default;
};

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config);

  Ratio scale() const { return {std::int64_t{1} << state_.power, 1}; }
  Ratio inverse() const { return {1, std::int64_t{1} << state_.power}; }
  const LossScaleState& state() const { return state_; }
  /// Whether a loss scale with this configuration can reach `state`.
  bool may_be(const LossScaleState& state) const;
  void restore(const LossScaleState& state) { state_ = state; }
  bool is_used() const { return config_.growth_interval > 0 || config_.initial_power > 0; }
  void update(bool found_nonfinite);

 private:
  LossScaleConfig config_;
  LossScaleState state_;
};

}  // namespace sim
