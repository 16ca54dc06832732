#pragma once

/// From settings (text by name) to what the rule books take. Each function reads the options it needs and
/// leaves the others alone, so that one scenario serves every command.
///
/// Errors  missing_option, order_conflict, rules_conflict, layout_syntax, size_range; those of
///         settings.h, and of the rule books where something is built.

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/options/model_shape.h"
#include "verify/options/settings.h"

namespace verify {

sim::RuleBook rule_book(const Settings& settings);

/// Refuses a missing --world-size.
sim::ParallelSizes parallel_sizes(const Settings& settings);

/// The layout the settings ask for, checked and built.
sim::Layout requested_layout(const Settings& settings);

/// The layer placement the settings ask for, by the rule book they name, on a pipeline of this many ranks.
sim::LayerPlacement requested_placement(const Settings& settings, std::int64_t pipeline_ranks);

sim::NodePlacement node_placement(const Settings& settings);

/// A published model, with Megatron's defaults: the width of a gated MLP is two thirds of 4 H, in multiples
/// of 64.
ModelShape model_shape(const Settings& settings);
/// Whether all it needs is given.
bool has_model_shape(const Settings& settings);

/// The value of an option that must be there.
std::int64_t required_number(const Settings& settings, const std::string& name);

}  // namespace verify
