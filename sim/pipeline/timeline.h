#pragma once

/// The time at which each step of a schedule runs, if a step takes a whole number of units of time and a
/// message takes none. A send waits for its recv (rendezvous), and messages between two ranks pair up in the
/// order in which they are issued, as in NCCL.
///
/// Exact   work: v m (forward + backward), the same on every rank. bubble: the length of the timeline beyond
///         that. If all steps take equally long, bubble / work is (p - 1)/m for gpipe and 1f1b, and
///         (p - 1)/(v m) for interleaved.
/// Errors  wait_cycle: ranks wait for each other; message_mismatch: a send meets the recv of another step's
///         input; unmatched_message: the peer never takes or sends a message; step_cost: a cost is not in
///         [1, 1000].
/// Source  Narayanan et al. 2021, section 2.2.

#include "sim/pipeline/schedule.h"

namespace sim {

struct StepCost {
  std::int64_t forward = 1;
  std::int64_t backward = 1;
};

struct TimedStep {
  Step step;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedStep>> ranks;
  std::int64_t length = 0;  // when the last step of any rank ends
  std::int64_t work = 0;    // of one rank
  std::int64_t bubble() const { return length - work; }
};

Timeline timeline(const PipelineSchedule& schedule, const StepCost& cost = {});

}  // namespace sim
