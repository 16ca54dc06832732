#pragma once

/// The collective round on virtual ranks. Every group of every kind runs all_reduce, all_gather and
/// reduce_scatter on keyed whole numbers, and every result on every rank is compared with its definition.
///
/// Shapes  i32, two elements per rank, or one per block of a reduce_scatter. Sums are exact in every
///         order, and values are too small to overflow on 4,096 ranks.
/// Exact   Worlds of up to 4,096 ranks run whole. In larger worlds an evenly spread sample of the groups
///         of each kind runs, and the row says so.

#include "sim/world/simulate.h"
#include "verify/checks/layout_checks.h"

namespace verify {

struct RoundReport {
  CheckResult check;
  sim::RunReport run;
};

RoundReport collective_round(sim::WorldSpec spec, sim::Device& device);

}  // namespace verify
