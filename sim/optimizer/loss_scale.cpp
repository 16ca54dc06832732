#include "sim/optimizer/loss_scale.h"

#include <algorithm>

namespace sim {

void LossScale::update(bool found_nonfinite) {
  constexpr int kMostPower = 30;
  if (config_.growth_interval == 0) return;
  if (found_nonfinite) {
    good_steps_ = 0;
    if (--hysteresis_left_ <= 0) power_ = std::max(power_ - 1, config_.least_power);
    return;
  }
  if (++good_steps_ < config_.growth_interval) return;
  good_steps_ = 0;
  hysteresis_left_ = config_.hysteresis;
  power_ = std::min(power_ + 1, kMostPower);
}

}  // namespace sim
