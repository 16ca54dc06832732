#pragma once

/// A run of virtual ranks with its timeline in logical time. --trace writes it to a file (replay_forms.h).
///
/// Shapes  A compute slice lies in one part of the work. `parts` has the part of each slice of the timeline,
///         in the same order.
/// Calls   `run` must be the last run on `device`.
/// Exact   The timeline is the same for every schedule, number of threads and kind of context.

#include <string>
#include <vector>

#include "sim/world/run_timeline.h"

namespace sim {
class CountingDevice;
}

namespace verify {

struct TracedRun {
  std::string what;  // "training steps 1 to 2 of 20 at tp 4, pp 2, dp 2"
  sim::Layout layout;
  sim::RunReport run;  // without the published tensors
  sim::TimelineCost cost;
  sim::RunTimeline timeline;
  std::vector<std::vector<sim::WorkPart>> parts;
};

TracedRun traced_run(std::string what, const sim::WorldSpec& spec, sim::RunReport run,
                     const sim::CountingDevice& device);

}  // namespace verify
