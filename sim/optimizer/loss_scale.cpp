#include "sim/optimizer/loss_scale.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

LossScale::LossScale(const LossScaleConfig& config)
    : config_(config), state_{.power = config.initial_power, .hysteresis_left = config.hysteresis} {
  const bool fits = config.least_power >= 0 && config.least_power <= config.initial_power &&
                    config.initial_power <= kMostLossScalePower && config.growth_interval >= 0 &&
                    config.hysteresis >= 1;
  if (fits) return;
  refuse({.code = "loss_scale",
          .option = "--initial-loss-scale, --min-loss-scale, --loss-scale-window, --hysteresis",
          .numbers = fmt::format("an initial 2^{}, a least of 2^{}, a window of {}, a hysteresis of {}",
                                 config.initial_power, config.least_power, config.growth_interval,
                                 config.hysteresis),
          .rule = "scales are from 1 to 2^30, the initial not below the least; hysteresis is at least 1",
          .hint = "an initial 2^16, a least of 1, a window of 1000, a hysteresis of 2"});
}

bool LossScale::may_be(const LossScaleState& state) const {
  if (config_.growth_interval == 0) return state == LossScale(config_).state();
  return state.power >= config_.least_power && state.power <= kMostLossScalePower && state.good_steps >= 0 &&
         state.good_steps < config_.growth_interval && state.hysteresis_left <= config_.hysteresis &&
         state.hysteresis_left >= -kMostBadSteps;
}

void LossScale::update(bool found_nonfinite) {
  if (config_.growth_interval == 0) return;
  if (found_nonfinite) {
    state_.good_steps = 0;
    state_.hysteresis_left = std::max(state_.hysteresis_left - 1, -kMostBadSteps);
    if (state_.hysteresis_left <= 0) state_.power = std::max(state_.power - 1, config_.least_power);
    return;
  }
  if (++state_.good_steps < config_.growth_interval) return;
  state_.good_steps = 0;
  state_.hysteresis_left = config_.hysteresis;
  state_.power = std::min(state_.power + 1, kMostLossScalePower);
}

}  // namespace sim
