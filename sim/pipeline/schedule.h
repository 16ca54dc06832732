#pragma once

/// A pipeline schedule as data: for each rank what it computes, sends and receives, in order. The executor
/// walks it, the timeline measures it, and nothing else decides anything.
///
/// Shapes  an action is one step, or one batch of messages: started together, waited for together. A message
///         is named by the step whose input it is, on the rank that receives it.
/// Errors  pipeline_rank: a rank that is not of the pipeline; schedule_ranks: not p lists; those of
///         pipeline_shape.h.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py and p2p_communication.py.

#include <vector>

#include "sim/pipeline/pipeline_shape.h"

namespace sim {

struct Message {
  bool is_send = false;
  int peer = 0;  // pipeline rank
  Step input;    // of the receiver
  bool operator==(const Message&) const = default;
};

/// "send of the input of F 3 of chunk 1 to rank 2"
std::string text_of(const Message& message);

struct Action {
  std::optional<Step> step;
  std::vector<Message> messages;  // with no step
  bool operator==(const Action&) const = default;
};

struct RankSchedule {
  int warmup = 0;              // forward steps before the first backward one may follow
  bool all_in_warmup = false;  // the warm-up could be no shorter than all forward steps
  int peak_live = 0;           // most microbatches in flight, by the closed form of the schedule
  std::vector<Action> actions;
};

struct PipelineSchedule {
  PipelineShape shape;
  std::vector<RankSchedule> ranks;
};

/// What a rank computes, in order.
std::vector<Step> steps_of(const RankSchedule& rank);
/// Most microbatches that have been forward and not yet backward, counted step by step.
int counted_peak(const RankSchedule& rank);

/// The schedule of one rank: what a new schedule is.
using ScheduleFunction = RankSchedule (*)(const PipelineShape& shape, int rank);

/// That of all ranks.
PipelineSchedule make_schedule(ScheduleFunction schedule, const PipelineShape& shape);

/// Refuses a shape or a rank that no schedule has.
void check(const PipelineShape& shape, int rank);

/// Refuses a schedule without a list for each rank.
void check_lists(const PipelineSchedule& schedule);

}  // namespace sim
