#pragma once

/// Turns settings (text by name) into the inputs of the rule books, and into layouts, placements and pipeline
/// schedules. Each function reads only the options it needs, so that one scenario serves every command.
///
/// Errors  missing_option: a required option was not given; order_conflict: two options that give different
///         orders; rules_conflict: an option of the other rule book; layout_syntax: a pipeline layout in list
///         form that is not a list of lists of layer names; size_range; bad_choice: a word of --schedule that
///         is not the name of a pipeline schedule; microbatches_div: a global batch that is not a multiple of
///         the microbatch size times the replicas; those of settings.h, of sim/world/world_spec.h, of
///         sim/pipeline/pipeline_shape.h, and of the rule books where a layout or a placement is built.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/pipeline/schedules.h"
#include "sim/pipeline/timeline.h"
#include "sim/world/world_spec.h"
#include "verify/requests/model_options.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Returns a refusal of sim with the options that the user gave in the place of those that it names: chunks
/// may be given as stages or as layers, an order as a mapping, and microbatches as a batch. A size to try
/// becomes another value, where the given option does not count the same thing. `round` is the number of
/// sequences that a microbatch on every replica has, where it is known.
sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round = std::nullopt);

/// Runs `work`; its refusals name the options of these settings.
template <typename Work>
auto with_given_options(const Settings& settings, std::optional<std::int64_t> round, const Work& work) {
  return sim::with_refusals_named(
      work, [&](sim::Refusal refusal) { return in_given_options(std::move(refusal), settings, round); });
}

/// Reads the sizes of the layout. A missing --world-size is refused.
sim::ParallelSizes parallel_sizes(const Settings& settings);

/// Checks and builds the layout that the settings ask for.
sim::Layout requested_layout(const Settings& settings);

/// Reads what the rule book megatron needs in order to place the layers.
sim::LayerRequest layer_request(const Settings& settings, std::int64_t pipeline_ranks);

/// Places the layers on `pipeline_ranks` pipeline ranks, by the rule book that the settings name.
sim::LayerPlacement requested_placement(const Settings& settings, std::int64_t pipeline_ranks);

sim::NodePlacement node_placement(const Settings& settings);

/// Returns the world of virtual ranks that the options ask for: schedule, schedule-seed, pct-depth, threads,
/// ranks-as, reduction-order, eager-bytes, stack-bytes and gpus-per-node.
sim::WorldSpec requested_world(const Settings& settings, const sim::Layout& layout);

struct ScheduleRequest {
  sim::NamedSchedule schedule;
  sim::PipelineShape shape;
  sim::StepCost cost;
};

/// Reads the options about the pipeline, except its size and the microbatches.
sim::PipelineShape pipeline_options(const Settings& settings);

/// Returns the schedule that a training runs on `ranks` pipeline ranks: 1F1B, and interleaved 1F1B where
/// virtual stages are given.
ScheduleRequest training_schedule(sim::PipelineShape shape, std::int64_t ranks, std::int64_t microbatches);

/// Returns the microbatches of each of `replicas` data-parallel replicas in a step. The global batch size
/// must be given.
std::int64_t microbatches_of_batch(const BatchOptions& batch, std::int64_t replicas);

/// Returns the schedule that the command `schedule` shows. With a world size the whole layout is checked, and
/// the number of microbatches may come from the global batch size.
ScheduleRequest requested_schedule(const Settings& settings);

/// Returns a title such as "interleaved: 8 microbatches in groups of 4 on 4 pipeline ranks of 2 chunks".
std::string title_of(const ScheduleRequest& request);

}  // namespace verify
