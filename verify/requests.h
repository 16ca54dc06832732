#pragma once

/// From settings (text by name) to what the rule books take. Each function reads the options it needs and
/// leaves the others alone, so that one scenario serves every command.
///
/// Errors  missing_option, bad_choice, order_conflict, rules_conflict, layout_syntax; and those of
/// settings.h.

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/settings.h"

namespace verify {

sim::RuleBook rule_book(const Settings& settings);

/// Refuses a missing --world-size.
sim::ParallelSizes parallel_sizes(const Settings& settings);

/// The layout the settings ask for, checked and built.
sim::Layout requested_layout(const Settings& settings);

/// The layer placement the settings ask for, by the rule book they name. With a world size, the whole layout
/// is checked first and its (perhaps clamped) number of pipeline ranks is used.
sim::LayerPlacement requested_placement(const Settings& settings);

sim::NodePlacement node_placement(const Settings& settings);

/// One of `choices`, or the first of them when the option is absent.
std::string choice(const Settings& settings, const std::string& name,
                   const std::vector<std::string>& choices);

/// The value of an option that must be there.
std::int64_t required_number(const Settings& settings, const std::string& name);

}  // namespace verify
