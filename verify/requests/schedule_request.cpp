#include "verify/requests/schedule_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/check.h"
#include "sim/layout/size_rules.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

/// Returns the schedule named `word`; "1f1b" with chunks is the interleaved schedule.
sim::NamedSchedule named_schedule(std::string_view word, bool has_chunks) {
  const std::string_view name = word == "1f1b" && has_chunks ? "interleaved" : word;
  const auto all = sim::all_schedules();
  const auto found = std::ranges::find(all, name, &sim::NamedSchedule::name);
  CHECK(found != all.end());
  return *found;
}

sim::PipelineShape shape_of(const PipelineOptions& options, std::int64_t ranks, std::int64_t microbatches) {
  return {.pipeline_model_parallel_size = ranks,
          .num_microbatches = microbatches,
          .virtual_pipeline_model_parallel_size = options.virtual_size,
          .microbatch_group_size_per_virtual_pipeline_stage = options.group_size,
          .forward_only = options.forward_only,
          .overlap_moe_expert_parallel_comm = options.overlap_moe_expert_parallel_comm};
}

}  // namespace

PipelineOptions pipeline_options(const Settings& settings) {
  return {.virtual_size = virtual_pipeline_size(settings),
          .group_size = settings.number("microbatch-group-size-per-virtual-pipeline-stage"),
          .forward_only = settings.flag("forward-only"),
          .overlap_moe_expert_parallel_comm = settings.flag("overlap-moe-expert-parallel-comm")};
}

std::int64_t microbatches_of_batch(const BatchOptions& batch, std::int64_t replicas) {
  const std::int64_t global = *batch.global_batch_size, micro = batch.micro_batch_size;
  if (global % (micro * replicas) == 0) return global / (micro * replicas);
  refuse_by("microbatches_div", "--global-batch-size", global, replicas, micro, micro * replicas);
}

ScheduleRequest training_schedule(const PipelineOptions& options, std::int64_t ranks,
                                  std::int64_t microbatches) {
  const ScheduleRequest request{
      named_schedule("1f1b", options.virtual_size.has_value()), shape_of(options, ranks, microbatches), {}};
  sim::check(request.shape);
  return request;
}

ScheduleRequest requested_schedule(const Settings& settings) {
  const BatchOptions batch = batch_options(settings);
  std::int64_t ranks = settings.number("pipeline-model-parallel-size").value_or(1);
  std::optional<std::int64_t> microbatches = batch.num_microbatches, round;
  if (settings.has("world-size")) {
    const sim::Layout layout = requested_layout(settings);
    ranks = layout.pp;
    round = sim::capped_product({batch.micro_batch_size, layout.dp});
    if (!microbatches && batch.global_batch_size) microbatches = microbatches_of_batch(batch, layout.dp);
  }
  if (!microbatches) microbatches = required_number(settings, "num-microbatches");
  if (settings.has("pipeline-model-parallel-layout") && settings.has("num-layers"))
    requested_placement(settings, ranks);  // refuses a layout that is none
  const PipelineOptions options = pipeline_options(settings);
  const sim::PipelineShape shape = shape_of(options, ranks, *microbatches);
  with_given_options(settings, round, [&] { sim::check(shape); });
  return {named_schedule(settings.choice_among("schedule",
                                               option_named("schedule").as_read_by(Reader::schedule).choices),
                         options.virtual_size.has_value()),
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
