#pragma once

/// A moment up to which somebody waits: the one place of the library that reads a clock. Ranks in other
/// processes may never come, and nothing but time tells that; what a run computes never depends on it.
///
///   const Deadline deadline = Deadline::after(std::chrono::seconds(5));
///   while (!deadline.has_passed()) poll(..., deadline.poll_timeout());

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sim {

class Deadline {
 public:
  static Deadline after(std::chrono::milliseconds wait);

  bool has_passed() const { return remaining().count() == 0; }
  /// Rounded up to a whole millisecond; 0 once it has passed.
  std::chrono::milliseconds remaining() const;
  /// The same for poll(2), at most a minute at a time.
  int poll_timeout() const { return static_cast<int>(std::min<std::int64_t>(remaining().count(), 60'000)); }
  /// The earlier one is less.
  auto operator<=>(const Deadline&) const = default;

 private:
  explicit Deadline(std::int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  std::int64_t nanoseconds_;  // of a clock that nobody sets
};

}  // namespace sim
