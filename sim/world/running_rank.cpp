#include "sim/world/running_rank.h"

#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

#include "sim/world/virtual_world.h"

namespace sim {

namespace {

thread_local RankState* running_rank = nullptr;
std::terminate_handler terminate_before = nullptr;

void on_terminate() {
  RankState* rank = running_rank;
  if (rank == nullptr) {
    if (terminate_before != nullptr) terminate_before();
    std::abort();
  }
  rank->world.give_up(*rank, thrown(*rank, "rank_terminated", "its program came to std::terminate()",
                                    "an exception, and the end of a world that stands still, can leave every "
                                    "function that calls, waits or throws",
                                    "no noexcept on it, and no wait() in a destructor; threads are joined"));
}

}  // namespace

void watch_for_terminate() {
  static std::once_flag installed;
  std::call_once(installed, [] { terminate_before = std::set_terminate(on_terminate); });
}

RunningRank::RunningRank(RankState& rank)
    : before_(std::exchange(running_rank, &rank)), device_(rank.device.get()) {}

RunningRank::~RunningRank() { running_rank = before_; }

}  // namespace sim
