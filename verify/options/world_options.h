#pragma once

/// From settings to the world of virtual ranks they ask for: schedule, schedule-seed, pct-depth, threads,
/// ranks-as, reduction-order, eager-bytes, stack-bytes.
///
/// Errors  those of settings.h and of sim/world/world_spec.h.

#include "sim/world/world_spec.h"
#include "verify/options/settings.h"

namespace verify {

sim::WorldSpec requested_world(const Settings& settings, const sim::Layout& layout);

}  // namespace verify
