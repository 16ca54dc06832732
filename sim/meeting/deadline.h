#pragma once

/// A point in time until which a process waits. Ranks in other processes may never come, and only a clock can
/// tell, so this is the one place in sim/ that reads a clock. The results of a run never depend on it.
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
  /// Returns the time that is left, rounded up to a whole millisecond; 0 once the deadline has passed.
  std::chrono::milliseconds remaining() const;
  /// Returns the time that is left in milliseconds as poll(2) takes it, at most one minute.
  int poll_timeout() const { return static_cast<int>(std::min<std::int64_t>(remaining().count(), 60'000)); }
  /// Orders deadlines by time: the earlier one is less.
  auto operator<=>(const Deadline&) const = default;

 private:
  explicit Deadline(std::int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  std::int64_t nanoseconds_;  // time of the steady clock, which nobody can set
};

}  // namespace sim
