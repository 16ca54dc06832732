#include "verify/backend.h"

namespace verify {

sim::ClusterWorld cluster_world(const sim::WorldSpec& world) {
  return {.layout = world.layout,
          .nodes = world.nodes,
          .reduction_order = world.reduction_order,
          .eager_bytes = world.eager_bytes,
          .seed = world.seed,
          .call_limit = world.call_limit};
}

}  // namespace verify
