#pragma once

/// A collective round on virtual ranks: every group of every kind does all_reduce, all_gather and
/// reduce_scatter on keyed whole numbers, and every result on every rank is held against its definition.
///
/// Shapes  two elements a rank, or one a block of a reduce_scatter, i32: exact in every order, and too small
///         to overflow in 4,096 ranks.
/// Exact   worlds of up to 4,096 ranks run whole. Of larger ones a sample of groups of each kind runs, spread
///         evenly, and the check says so.

#include "sim/world/simulate.h"
#include "verify/checks/layout_checks.h"

namespace verify {

struct RoundReport {
  CheckResult check;
  sim::RunReport run;
};

RoundReport collective_round(sim::WorldSpec spec, sim::Device& device);

}  // namespace verify
