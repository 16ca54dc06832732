#include "sim/world/outside.h"

#include "sim/base/check.h"
#include "sim/world/running_rank.h"
#include "sim/world/virtual_world.h"

namespace sim {

void wait_until_readable(int descriptor) {
  RankState* rank = RunningRank::current();
  SIM_CHECK(rank != nullptr);
  rank->world.wait_outside(*rank, descriptor);
}

}  // namespace sim
