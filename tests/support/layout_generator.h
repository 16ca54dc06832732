#pragma once

/// Random layouts for properties: sizes, order strings, optimizer instances and hierarchical context
/// parallelism, in worlds of up to 4,096 ranks. Every number shrinks towards 1 and the order towards
/// tp-cp-ep-dp-pp, so a failing property ends on the smallest layout that still fails.

#include <ostream>
#include <rapidcheck.h>

#include "sim/layout/parallel_sizes.h"

namespace sim {

/// RapidCheck prints a counterexample as the options that reproduce it.
void showValue(const ParallelSizes& sizes, std::ostream& out);

}  // namespace sim

namespace test {

inline constexpr int kLargestWorld = 4096;

/// Draws sizes that divide evenly. The pipeline-order rules may still refuse them.
rc::Gen<sim::ParallelSizes> megatron_sizes();

/// Draws like megatron_sizes, without the sizes that Megatron refuses.
rc::Gen<sim::ParallelSizes> accepted_megatron_sizes();

/// Draws tp, pp, the world size and sometimes a split rank that lies in the pipeline.
rc::Gen<sim::ParallelSizes> legacy_sizes();

}  // namespace test
