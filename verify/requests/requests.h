#pragma once

/// Turns settings (text by name) into the inputs of the rule books, and into layouts and placements. Each
/// function reads only the options it needs, so that one scenario serves every command.
///
/// Errors  missing_option: a required option was not given; order_conflict: two options that give different
///         orders; rules_conflict: an option of the other rule book; layout_syntax: a pipeline layout in list
///         form that is not a list of lists of layer names; size_range; those of settings.h, of
///         sim/world/world_spec.h, and of the rule books where a layout or a placement is built.

#include <cstdint>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/world_spec.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Returns a refusal of sim with the options that the user gave in the place of those that it names: chunks
/// may be given as stages or as layers, an order as a mapping, and microbatches as a batch. A size to try
/// becomes another value, where the given option does not count the same thing. `round` is the number of
/// sequences that a microbatch on every replica has, where it is known.
sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round = std::nullopt);

/// Does a piece of work, whose refusals name the options of these settings.
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

}  // namespace verify
