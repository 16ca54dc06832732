#include "sim/mpi/watch.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/mpi/cluster.h"

namespace sim {

Watch::Watch(WatchedCall call) : call_(std::move(call)), thread_([this] { wait(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watch::wait() {
  constexpr int kBrokenContract = 3;  // the program's exit code for a broken contract
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, call_.deadline, [this] { return is_over_; })) return;
  const std::string text = text_of(
      Refusal{.code = "process_silent",
              .option = fmt::format("rank {} in {}", call_.rank, call_.what),
              .numbers = fmt::format("it has not ended within {} ms", call_.deadline.count()),
              .rule = "all processes take part in it within the deadline",
              .hint = "look at the rank that does not write this; on slow machines set a longer --deadline"});
  std::fputs(fmt::format("rank {}: {}", call_.rank, text).c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(kBrokenContract);
}

}  // namespace sim
