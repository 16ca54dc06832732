#include "sim/pipeline/schedule.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

std::string text_of(const Message& message) {
  return fmt::format("{} of the input of {} {} rank {}", message.is_send ? "send" : "recv",
                     text_of(message.input), message.is_send ? "to" : "from", message.peer);
}

std::vector<Step> steps_of(const RankSchedule& rank) {
  std::vector<Step> steps;
  for (const Action& action : rank.actions) {
    if (action.step) steps.push_back(*action.step);
  }
  return steps;
}

int counted_peak(const RankSchedule& rank) {
  int live = 0;
  int peak = 0;
  for (const Step& step : steps_of(rank)) {
    live += step.pass == Pass::forward ? 1 : -1;
    peak = std::max(peak, live);
  }
  return peak;
}

PipelineSchedule make_schedule(ScheduleFunction schedule, const PipelineShape& shape) {
  check(shape);
  PipelineSchedule all{.shape = shape, .ranks = {}};
  for (int rank = 0; rank < shape.ranks(); ++rank) all.ranks.push_back(schedule(shape, rank));
  return all;
}

void check(const PipelineShape& shape, int rank) {
  check(shape);
  if (rank >= 0 && rank < shape.ranks()) return;
  refuse({.code = "pipeline_rank",
          .option = "pipeline schedule",
          .numbers = fmt::format("rank {} of {}", rank, shape.ranks()),
          .rule = "pipeline ranks count from 0, and are below the number of ranks",
          .hint = "the place of the rank in the pp group"});
}

void require_lists(const PipelineSchedule& schedule) {
  check(schedule.shape);
  if (std::ssize(schedule.ranks) == schedule.shape.ranks()) return;
  refuse({.code = "schedule_ranks",
          .option = "pipeline schedule",
          .numbers = fmt::format("{} lists for {} ranks", schedule.ranks.size(), schedule.shape.ranks()),
          .rule = "a schedule has one list for each rank",
          .hint = "a schedule that make_schedule() returns"});
}

}  // namespace sim
