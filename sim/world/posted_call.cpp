#include "sim/world/posted_call.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/running_device.h"
#include "sim/world/virtual_world.h"

namespace sim {

PostedCall::PostedCall(RankState& rank, GroupState& group, int at_place, Call& posted)
    : call(posted), rank_state(rank), group_state(group), place(at_place), device_(rank.device.get()) {}

void PostedCall::wait() {
  if (done) return;
  if (running_device() != device_) {
    refuse({.code = "wrong_rank",
            .option = fmt::format("wait() for {} {}", name_of(call.operation), text_of(call.site)),
            .numbers = "another rank started this call, or its world is over",
            .rule = "a rank waits for its own calls, and only while its program runs",
            .hint = "wait() before the program ends, with a Work that does not leave its rank"});
  }
  rank_state.world.wait_for(rank_state, *this);
}

}  // namespace sim
