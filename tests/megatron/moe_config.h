#pragma once

/// Returns the routing that a line of tests/megatron/moe configures. An option that is null or absent is not
/// given.

#include "sim/experts/topk_routing.h"
#include "tests/megatron/lines.h"

namespace test {

sim::TopKRoutingConfig routing_of(const Json& config);

}  // namespace test
