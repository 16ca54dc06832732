#include "sim/meeting/deadline.h"

namespace sim {

namespace {

constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;
/// The longest wait in milliseconds, about 30 years. It is small enough that no sum overflows.
constexpr std::int64_t kLongestWait = std::int64_t{1'000'000'000'000};

std::int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

Deadline Deadline::after(std::chrono::milliseconds wait) {
  const std::int64_t milliseconds = std::clamp<std::int64_t>(wait.count(), 0, kLongestWait);
  return Deadline(now() + milliseconds * kNanosecondsPerMillisecond);
}

std::chrono::milliseconds Deadline::remaining() const {
  const std::int64_t left = nanoseconds_ - now();
  return std::chrono::milliseconds(left <= 0 ? 0 : (left - 1) / kNanosecondsPerMillisecond + 1);
}

}  // namespace sim
