#pragma once

/// The loss scale after a training, computed without sim/optimizer from the list of steps whose gradients
/// were not finite.
///
/// Shapes  the scale is 2^power.
/// Source  Megatron-LM, DynamicGradScaler.update: a bad step lowers the hysteresis by one, and halves the
///         scale once it is used up; `growth_interval` good steps in a row double the scale and restore the
///         hysteresis. ConstantGradScaler, with a `growth_interval` of 0: no step changes the scale.

#include <algorithm>
#include <vector>

namespace verify::reference {

struct LossScaleSetting {
  int initial_power = 0;
  int least_power = 0;
  int growth_interval = 1;  // good steps; 0: the scale is constant
  int hysteresis = 1;       // bad steps
};

inline int loss_scale_power(const LossScaleSetting& setting, const std::vector<bool>& step_is_bad) {
  int power = setting.initial_power;
  if (setting.growth_interval == 0) return power;
  int bad = 0;   // since the scale grew
  int good = 0;  // in a row
  for (const bool is_bad : step_is_bad) {
    good = is_bad ? 0 : good + 1;
    bad += is_bad ? 1 : 0;
    if (is_bad && bad >= setting.hysteresis) power = std::max(power - 1, setting.least_power);
    if (good == setting.growth_interval) {
      ++power;
      good = bad = 0;
    }
  }
  return power;
}

}  // namespace verify::reference
