#pragma once

/// The time at which each step of a schedule runs, if steps and messages take whole numbers of units of
/// time. A send waits for its recv (rendezvous), messages between two ranks pair up in the order in which
/// they are issued, as in NCCL, and both ranks wait until a message is over.
///
/// Shapes  critical: the steps that the length is the sum of, from the first one on; each begins when the one
///         before it and the messages between them are over.
/// Exact   work: of the rank that works most; with equal costs v m (forward + backward). bubble: the length
///         of the timeline beyond that. If all steps take equally long, bubble / work is (p - 1)/m for gpipe
///         and 1f1b, and (p - 1)/(v m) for interleaved.
/// Errors  wait_cycle: ranks wait for each other; message_mismatch: a send meets the recv of another step's
///         input; unmatched_message: the peer never takes or sends a message; step_cost: a cost is not in
///         [1, 1000].
/// Source  Narayanan et al. 2021, section 2.2.

#include <functional>
#include <optional>
#include <vector>

#include "sim/pipeline/schedule.h"

namespace sim {

struct StepCost {
  std::int64_t forward = 1;
  std::int64_t backward = 1;
};

/// How long everything takes, where that is not the same on every rank.
struct StepTimes {
  std::function<std::int64_t(int rank, const Step& step)> step;
  std::function<std::int64_t(int from, int to)> message;
  std::function<std::int64_t(int rank)> end;  // of what a rank does after its last action
};

struct TimedStep {
  Step step;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct CriticalStep {
  int rank = 0;
  std::optional<Step> step;   // nothing: what the rank does after its last action
  std::int64_t messages = 0;  // the units of the messages that it waits for
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedStep>> ranks;
  std::vector<TimedStep> ends;         // of each rank, after its last action; their steps are not set
  std::vector<CriticalStep> critical;  // the critical path
  std::int64_t length = 0;             // when the last rank ends
  std::int64_t work = 0;               // of the rank that works most
  std::int64_t bubble() const { return length - work; }
};

Timeline timeline(const PipelineSchedule& schedule, const StepCost& cost = {});
Timeline timeline(const PipelineSchedule& schedule, const StepTimes& times);

}  // namespace sim
