#pragma once

/// The factor that losses are multiplied by, so that small gradients survive in a narrow dtype: smaller after
/// steps whose gradients were not finite, larger after a long run of good ones.
///
/// Shapes  a power of two as a ratio; constant with growth_interval 0.
/// Errors  loss_scale: powers not from 0 to 30, least above initial, a negative interval, no hysteresis.
/// Exact   whole numbers alone decide; the same on every rank that saw the same flags.
/// Source  Megatron-LM, DynamicGradScaler: hysteresis counts down with each bad step and is full again only
///         after a growth.

#include <cstdint>

#include "sim/tensor/device.h"

namespace sim {

inline constexpr int kMostLossScalePower = 30;
/// Bad steps after which hysteresis counts no further.
inline constexpr int kMostBadSteps = 1'000'000;

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
  explicit LossScale(const LossScaleConfig& config);

  Ratio scale() const { return {std::int64_t{1} << state_.power, 1}; }
  Ratio inverse() const { return {1, std::int64_t{1} << state_.power}; }
  const LossScaleState& state() const { return state_; }
  /// Whether a scale of this configuration may have come to that.
  bool may_be(const LossScaleState& state) const;
  void restore(const LossScaleState& state) { state_ = state; }
  bool is_used() const { return config_.growth_interval > 0 || config_.initial_power > 0; }
  void update(bool found_nonfinite);

 private:
  LossScaleConfig config_;
  LossScaleState state_;
};

}  // namespace sim
