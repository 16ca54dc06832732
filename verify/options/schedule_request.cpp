#include "verify/options/schedule_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "verify/options/requests.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr const char* kVirtualSize = "virtual-pipeline-model-parallel-size";
constexpr const char* kGroupSize = "microbatch-group-size-per-virtual-pipeline-stage";

/// "1f1b" with chunks is the interleaved one.
sim::NamedSchedule named_schedule(const Settings& settings) {
  std::string_view name = "interleaved";
  const std::string word = settings.choice_among("schedule", {"1f1b", "gpipe", "none"});
  if (word != "1f1b" || !settings.has(kVirtualSize)) name = word;
  const auto all = sim::all_schedules();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return name == one.name; });
  CHECK(found != all.end());
  return *found;
}

/// Of each data-parallel replica.
std::int64_t microbatches_of_batch(const Settings& settings, std::int64_t replicas) {
  const std::int64_t batch = required_number(settings, "global-batch-size");
  const std::int64_t micro = settings.number("micro-batch-size").value_or(1);
  if (batch % (micro * replicas) == 0) return batch / (micro * replicas);
  sim::refuse({.code = "microbatches_div",
               .option = "--global-batch-size",
               .numbers = fmt::format("{} sequences over {} data-parallel ranks, {} in a microbatch", batch,
                                      replicas, micro),
               .rule = "every replica has the same whole number of microbatches",
               .hint = fmt::format("--global-batch-size {}", micro * replicas)});
}

}  // namespace

ScheduleRequest requested_schedule(const Settings& settings) {
  std::int64_t ranks = settings.number("pipeline-model-parallel-size").value_or(1);
  std::optional<std::int64_t> microbatches = settings.number("num-microbatches");
  if (settings.has("world-size")) {
    const sim::Layout layout = requested_layout(settings);
    ranks = layout.pp;
    if (!microbatches && settings.has("global-batch-size"))
      microbatches = microbatches_of_batch(settings, layout.dp);
  }
  if (!microbatches) microbatches = required_number(settings, "num-microbatches");
  const sim::PipelineShape shape{
      .pipeline_model_parallel_size = ranks,
      .num_microbatches = *microbatches,
      .virtual_pipeline_model_parallel_size = settings.number(kVirtualSize),
      .microbatch_group_size_per_virtual_pipeline_stage = settings.number(kGroupSize),
      .forward_only = settings.flag("forward-only"),
      .overlap_moe_expert_parallel_comm = settings.flag("overlap-moe-expert-parallel-comm")};
  return {named_schedule(settings),
          shape,
          {settings.number("forward-cost").value_or(1), settings.number("backward-cost").value_or(1)}};
}

std::string title_of(const ScheduleRequest& request) {
  const sim::PipelineShape& shape = request.shape;
  std::string title =
      fmt::format("{}{}: {}", request.schedule.name, shape.forward_only ? ", forward only" : "",
                  counted(shape.num_microbatches, "microbatch"));
  if (shape.is_interleaved()) title += fmt::format(" in groups of {}", shape.group_size());
  title += fmt::format(" on {}", counted(shape.ranks(), "pipeline rank"));
  if (shape.is_interleaved()) title += fmt::format(" of {}", counted(shape.chunks(), "chunk"));
  return title;
}

}  // namespace verify
