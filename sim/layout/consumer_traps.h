#pragma once

/// Layouts that Megatron accepts although one of its own consumers then works on the wrong ranks. A job
/// that does not use that consumer runs correctly, so these layouts are not refused; a warning names the
/// trap.
///
///   inter_instance_group  There is no dense inter-instance group: across optimizer instances the dense
///                         gradients are all-reduced over inter-edp, whose members hold different dense
///                         shards in this layout.
///   instance_coverage     The gradient-norm group of an instance (intra-dist-opt) cuts through its
///                         intra-dp-cp groups, so parts of the norm are missing or counted twice.
///   dispatcher_order      The all-to-all token dispatcher reads the tp-ep group with etp fastest; in
///                         this order ep is fastest.
///
/// Calls   with more than one optimizer instance, the first two visit every rank: O(world).
/// Source  Megatron-LM parallel_state.py, token_dispatcher.py; found with randomly drawn layouts.

#include <vector>

#include "sim/layout/layout.h"

namespace sim {

std::vector<Warning> consumer_traps(const Layout& layout);

/// Whether a warning names one of these traps, in which results are wrong and no error is reported.
bool is_consumer_trap(const Warning& warning);
/// Whether the trap is that of the all-to-all token dispatcher, which other dispatchers do not have.
bool is_about_all_to_all(const Warning& warning);

}  // namespace sim
