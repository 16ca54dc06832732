#pragma once

/// Random layouts for properties: sizes, order strings, optimizer instances and hierarchical context
/// parallelism, of worlds up to 4,096 ranks. Every number shrinks towards 1 and the order towards
/// tp-cp-ep-dp-pp, so a failing property ends on the smallest layout that still fails.

#include <ostream>
#include <rapidcheck.h>

#include "sim/layout/parallel_sizes.h"

namespace sim {

/// So that RapidCheck prints a counterexample as the options that reproduce it.
void showValue(const ParallelSizes& sizes, std::ostream& out);

}  // namespace sim

namespace test {

inline constexpr int kLargestWorld = 4096;

/// Sizes whose divisions come out even; the pipeline-order rules may still refuse them.
rc::Gen<sim::ParallelSizes> megatron_sizes();

/// The same, without those that Megatron refuses.
rc::Gen<sim::ParallelSizes> accepted_megatron_sizes();

/// tp, pp, world and perhaps a split rank that lies in the pipeline.
rc::Gen<sim::ParallelSizes> legacy_sizes();

}  // namespace test
