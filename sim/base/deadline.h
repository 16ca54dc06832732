#pragma once

/// A point in time until which a process waits. Ranks in other processes may never come, and only a clock can
/// tell, so this is the one file of sim/ that reads a clock. The results of a run never depend on it.
///
///   const Deadline deadline = Deadline::after(std::chrono::seconds(5));
///   while (!deadline.has_passed()) ...

#include <algorithm>
#include <chrono>
#include <string>

namespace sim {

class Deadline {
 public:
  /// A wait of more than 30 years is cut to that, so that no sum overflows.
  static Deadline after(std::chrono::milliseconds wait) {
    constexpr std::chrono::hours kLongest{30 * 365 * 24};
    return Deadline(Clock::now() + std::clamp<std::chrono::milliseconds>(wait, {}, kLongest));
  }

  bool has_passed() const { return remaining().count() == 0; }
  /// Returns the time that is left, rounded up to a whole millisecond; 0 once the deadline has passed.
  std::chrono::milliseconds remaining() const {
    using std::chrono::milliseconds;
    return std::max(std::chrono::ceil<milliseconds>(end_ - Clock::now()), milliseconds{});
  }
  /// Orders deadlines by time: the earlier one is less.
  auto operator<=>(const Deadline&) const = default;

 private:
  using Clock = std::chrono::steady_clock;  // nobody can set it
  explicit Deadline(Clock::time_point end) : end_(end) {}

  Clock::time_point end_;
};

/// Returns a text such as "60 s" or "250 ms".
inline std::string text_of(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace sim
