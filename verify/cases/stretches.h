#pragma once

/// The stretches of a training that stops and resumes: which steps each takes, and the store through which
/// they pass the state on.
///
/// Calls   the store, which is watched, ends the run by a std::logic_error when a file that the index of the
///         checkpoint names is written or removed: a process that ended then would have lost the checkpoint.
///         The exception is no sim::Error, because a save ignores a refusal to remove.

#include <cstdint>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/optimizer/loss_scale.h"
#include "verify/cases/case_setting.h"
#include "verify/reference/loss_scale.h"

namespace verify {

/// Returns the first step that the training of a setting takes, and the step before which it ends.
inline std::int64_t first_step(const CaseSetting& s) { return s.stretch ? s.stretch->first : 0; }
inline std::int64_t end_step(const CaseSetting& s) { return s.stretch ? s.stretch->last : s["steps"]; }

/// Returns a training in three stretches: on the ranks of `whole`, on those of `between`, and on those of
/// `whole` again. The steps at which it stops follow from its seed. The stretch in between takes a step in
/// the field alone, where sums are not rounded; in floats it loads and saves. A watched store in memory
/// carries the state.
std::vector<CaseSetting> in_stretches(const CaseSetting& whole, CaseSetting between);

// What the plans of trainings share about the loss scale, and about steps that are skipped because of it.
//
// Calls   skips(step) is whether the step with this number, from 0 on, is skipped.
// Source  verify/reference/loss_scale.h has the rule.

/// Returns the configuration of the ranks for a setting of the reference.
inline sim::LossScaleConfig loss_scale_config(const reference::LossScaleSetting& setting) {
  return {.initial_power = setting.initial_power,
          .least_power = setting.least_power,
          .growth_interval = setting.growth_interval,
          .hysteresis = setting.hysteresis};
}

/// Returns the least power of a training with this seed: a step that is skipped lowers the scale in every
/// second training, and finds it at its least in the others.
inline int drawn_least_power(std::uint64_t seed, int initial_power) {
  constexpr int kBelow = 2;
  return initial_power - (sim::KeyedRandom(seed).named("least loss scale").below(0, 2) == 0 ? 0 : kBelow);
}

/// Returns the loss scale after this number of steps, by the reference.
template <typename Skips>
std::int64_t loss_scale_after(std::int64_t steps, const reference::LossScaleSetting& setting,
                              const Skips& skips) {
  std::vector<bool> skipped;
  for (std::int64_t step = 0; step < steps; ++step) skipped.push_back(skips(step));
  return std::int64_t{1} << reference::loss_scale_power(setting, skipped);
}

/// Returns the number of optimizer updates in the first steps of a training.
template <typename Skips>
std::int64_t updates_in(std::int64_t steps, const Skips& skips) {
  std::int64_t updates = 0;
  for (std::int64_t step = 0; step < steps; ++step) updates += skips(step) ? 0 : 1;
  return updates;
}

}  // namespace verify
