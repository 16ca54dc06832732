#pragma once

/// A stream of a GPU that is played by this machine's processor. It does nothing until somebody has to wait
/// for it: what is not ordered by order_after is seen to be missing.
///
/// Calls   from any thread; one thread works at a time.

#include <cstdint>
#include <deque>
#include <functional>

namespace gpu {

class Stream {
 public:
  /// Copies what it needs of the caller's.
  void put(std::function<void()> work);
  /// Everything that has been put here so far.
  void finish();
  /// The number of pieces of work that were ever put here.
  std::int64_t position() const;
  void finish_until(std::int64_t position);

 private:
  std::deque<std::function<void()>> waiting_;
  std::int64_t done_ = 0;
};

}  // namespace gpu
