#include "sim/world/running_rank.h"

#include <cstdlib>
#include <exception>
#include <mutex>

#include "sim/world/process_end.h"
#include "sim/world/virtual_world.h"

namespace sim {

namespace {

std::terminate_handler terminate_before = nullptr;

void on_terminate() {
  RankState* rank = RunningRank::current();
  if (rank == nullptr) {
    end_terminated_process();
    if (terminate_before != nullptr) terminate_before();
    std::abort();
  }
  rank->world.give_up(*rank,
                      thrown(*rank, "rank_terminated", "its program called std::terminate()",
                             "an exception can leave every function that calls, waits or throws: its own, "
                             "or the one that ends a world in which no rank can run",
                             "remove noexcept from it, wait() in no destructor, and join all threads"));
}

}  // namespace

void watch_for_terminate() {
  static std::once_flag installed;
  std::call_once(installed, [] { terminate_before = std::set_terminate(on_terminate); });
}

}  // namespace sim
