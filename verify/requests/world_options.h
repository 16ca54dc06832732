#pragma once

/// Turns settings into the world of virtual ranks that they ask for. The options are schedule, schedule-seed,
/// pct-depth, threads, ranks-as, reduction-order, eager-bytes, stack-bytes and gpus-per-node.
///
/// Errors  those of settings.h and of sim/world/world_spec.h.

#include "sim/world/world_spec.h"
#include "verify/vocabulary/settings.h"

namespace verify {

sim::WorldSpec requested_world(const Settings& settings, const sim::Layout& layout);

}  // namespace verify
