#include "sim/world/posted_call.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/running_device.h"
#include "sim/world/virtual_world.h"

namespace sim {

StartedCall::StartedCall(RankState& rank, GroupState& group, int place, Call&& started)
    : call_(std::move(started)), posted_(rank, group, place, call_), device_(rank.device.get()) {}

void StartedCall::wait() {
  if (posted_.done) return;
  if (running_device() != device_) {
    refuse({.code = "wrong_rank",
            .option = fmt::format("wait() for {} {}", name_of(call_.operation), text_of(call_.site)),
            .numbers = "another rank started this call, or its world is over",
            .rule = "a rank waits for its own calls, and only while its program runs",
            .hint = "wait() before the program ends, with a Work that does not leave its rank"});
  }
  posted_.rank_state.world.wait_for(posted_.rank_state, posted_);
}

}  // namespace sim
