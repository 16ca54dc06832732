#pragma once

/// Layers of experts with typical programming mistakes: rank programs that publish what the case moe_layer
/// publishes.

#include "verify/cases/case.h"

namespace test {

void gathered_over_data_parallel_ranks(sim::Rank& rank, const verify::CaseSetting& setting);
void shared_experts_drawn_by_each_replica(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
