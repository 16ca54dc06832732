#pragma once

/// A pipeline schedule as data: what each rank computes, sends and receives, in order. The executor walks it
/// and the timeline measures it; all decisions are in the schedule.
///
/// Shapes  An action is one step, or one batch of messages that are started together and waited for together.
///         A message is named by the step whose input it is, on the rank that receives it.
/// Errors  pipeline_rank: a rank that is not in the pipeline; schedule_ranks: the number of lists is not p;
///         those of pipeline_shape.h.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py and p2p_communication.py.

#include <vector>

#include "sim/pipeline/pipeline_shape.h"

namespace sim {

struct Message {
  bool is_send = false;
  int peer = 0;  // pipeline rank
  Step input;    // the step on the receiver whose input this is
  bool operator==(const Message&) const = default;
};

/// Returns a message as text, such as "send of the input of F 3 of chunk 1 to rank 2".
std::string text_of(const Message& message);

struct Action {
  std::optional<Step> step;
  std::vector<Message> messages;  // empty if there is a step
  bool operator==(const Action&) const = default;
};

struct RankSchedule {
  int warmup = 0;              // forward steps of the warm-up phase
  bool all_in_warmup = false;  // the warm-up takes all forward steps
  int peak_live = 0;           // the most microbatches in flight at once, by the schedule's closed form
  std::vector<Action> actions;
};

struct PipelineSchedule {
  PipelineShape shape;
  std::vector<RankSchedule> ranks;
};

/// Returns the steps that a rank computes, in order.
std::vector<Step> steps_of(const RankSchedule& rank);
/// Returns the largest number of microbatches that are between forward and backward at once, counted step
/// by step.
int counted_peak(const RankSchedule& rank);

/// A function that writes the schedule of one rank. A new kind of schedule is such a function.
using ScheduleFunction = RankSchedule (*)(const PipelineShape& shape, int rank);

/// Returns the schedules of all ranks.
PipelineSchedule make_schedule(ScheduleFunction schedule, const PipelineShape& shape);

/// Refuses a shape that has no schedule, and a rank that is not in the pipeline.
void check(const PipelineShape& shape, int rank);

/// Refuses a schedule that does not have one list for each rank.
void require_lists(const PipelineSchedule& schedule);

}  // namespace sim
