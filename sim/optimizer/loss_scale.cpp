#include "sim/optimizer/loss_scale.h"

#include <algorithm>

namespace sim {

void LossScale::update(bool found_nonfinite) {
  if (config_.growth_interval == 0) return;
  if (found_nonfinite) {
    state_.good_steps = 0;
    if (--state_.hysteresis_left <= 0) state_.power = std::max(state_.power - 1, config_.least_power);
    return;
  }
  if (++state_.good_steps < config_.growth_interval) return;
  state_.good_steps = 0;
  state_.hysteresis_left = config_.hysteresis;
  state_.power = std::min(state_.power + 1, kMostLossScalePower);
}

}  // namespace sim
