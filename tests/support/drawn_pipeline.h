#pragma once

/// Draws a schedule and a shape that the schedule takes, inside a property: up to 8 ranks, 4 chunks and
/// 30 microbatches.

#include <ostream>
#include <rapidcheck.h>

#include "sim/pipeline/schedules.h"

namespace sim {

/// Shows the name only, because RapidCheck would follow the pointer to a function without end.
inline void showValue(const NamedSchedule& schedule, std::ostream& out) { out << schedule.name; }

}  // namespace sim

namespace test {

struct DrawnPipeline {
  sim::NamedSchedule schedule;
  sim::PipelineShape shape;
};

inline sim::PipelineShape drawn_groups() {
  sim::PipelineShape shape{.pipeline_model_parallel_size = *rc::gen::inRange(2, 8)};
  const std::int64_t p = shape.pipeline_model_parallel_size;
  const std::int64_t group = p + *rc::gen::inRange(0, 4);
  const std::int64_t rest = *rc::gen::inRange<std::int64_t>(p - 1, group);  // p - 1 stands for no remainder
  shape.num_microbatches = group * *rc::gen::inRange(1, 3) + (rest < p ? 0 : rest);
  shape.virtual_pipeline_model_parallel_size = *rc::gen::inRange(1, 5);
  shape.overlap_moe_expert_parallel_comm = *rc::gen::arbitrary<bool>();
  if (group != p || *rc::gen::arbitrary<bool>())
    shape.microbatch_group_size_per_virtual_pipeline_stage = group;
  return shape;
}

inline DrawnPipeline drawn_pipeline() {
  const sim::NamedSchedule schedule = *rc::gen::elementOf(
      std::vector<sim::NamedSchedule>(sim::all_schedules().begin(), sim::all_schedules().end()));
  if (schedule.is_interleaved) return {schedule, drawn_groups()};
  return {schedule,
          {.pipeline_model_parallel_size = *rc::gen::inRange(1, 9),
           .num_microbatches = *rc::gen::inRange(1, 20)}};
}

}  // namespace test
