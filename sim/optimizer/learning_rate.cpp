#include "sim/optimizer/learning_rate.h"

#include <cmath>
#include <fmt/format.h>

#include "sim/base/elementary.h"
#include "sim/base/error.h"

namespace sim {

namespace {

Ratio ratio_of(double rate) {
  constexpr std::int64_t kDenominator = std::int64_t{1} << 30;
  return {static_cast<std::int64_t>(std::nearbyint(rate * static_cast<double>(kDenominator))), kDenominator};
}

double share(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

Ratio learning_rate(const LearningRateConfig& config, std::int64_t step) {
  const bool decays = config.decay == Decay::cosine;
  if (step < 0 || config.warmup_steps < 0 || (decays && config.warmup_steps >= config.decay_steps)) {
    refuse({.code = "learning_rate",
            .option = "learning rate",
            .numbers = fmt::format("step {}, {} steps of warm-up, a decay that ends at step {}", step,
                                   config.warmup_steps, config.decay_steps),
            .rule = "steps count from 0, and the warm-up ends before the decay",
            .hint = "fewer steps of warm-up, or a later end of the decay"});
  }
  if (step < config.warmup_steps) {
    return ratio_of(config.initial + (config.peak - config.initial) * share(step, config.warmup_steps));
  }
  if (!decays) return ratio_of(config.peak);
  if (step >= config.decay_steps) return ratio_of(config.least);
  const double done = share(step - config.warmup_steps, config.decay_steps - config.warmup_steps);
  const double left = 0.5 * (1 + elementary::cos(M_PI * done));
  return ratio_of(config.least + (config.peak - config.least) * left);
}

}  // namespace sim
