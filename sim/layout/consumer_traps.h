#pragma once

/// Layouts that Megatron accepts although one of its own consumers then works on the wrong ranks. They are
/// right for a job that does not use that consumer, so they are warned about by name, not refused.
///
///   inter_instance_group  there is no dense inter-instance group: across optimizer instances the dense
///                         gradients are all-reduced over inter-edp, whose members hold different dense
///                         shards here
///   instance_coverage     the gradient-norm group of an instance (intra-dist-opt) cuts through its
///                         intra-dp-cp groups, so parts of the norm are missing or counted twice
///   dispatcher_order      the all-to-all token dispatcher reads the tp-ep group with etp fastest; this order
///                         has ep fastest
///
/// Calls   the first two walk every rank when there is more than one optimizer instance: O(world).
/// Source  Megatron-LM parallel_state.py, token_dispatcher.py; found by running drawn layouts.

#include <vector>

#include "sim/layout/layout.h"

namespace sim {

std::vector<Warning> consumer_traps(const Layout& layout);

}  // namespace sim
