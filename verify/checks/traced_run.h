#pragma once

/// What the virtual ranks of a scenario did, and when: what --trace shows of it (trace_json.h).
///
/// Calls   `run` is of a CountingDevice.
/// Exact   the same for every schedule, number of threads and kind of context.

#include <string>

#include "sim/world/run_timeline.h"

namespace verify {

struct TracedRun {
  std::string what;  // "training steps 1 to 2 of 20 at tp 4, pp 2, dp 2"
  sim::Layout layout;
  sim::RunReport run;  // without what was published
  sim::TimelineCost cost;
  sim::RunTimeline timeline;
};

TracedRun traced_run(std::string what, const sim::WorldSpec& spec, sim::RunReport run);

}  // namespace verify
