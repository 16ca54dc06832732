#pragma once

/// A stream of a GPU played by this machine's processor. It runs no work until a caller has to wait for it,
/// so that a dependency that order_after has not ordered gives wrong results in tests.
///
/// Calls   from any thread; one thread works at once.

#include <cstdint>
#include <deque>
#include <functional>

namespace gpu {

class Stream {
 public:
  /// Adds a piece of work. The work must own copies of the caller's data that it needs.
  void put(std::function<void()> work);
  /// Runs all work that has been put on this stream so far.
  void finish();
  /// Returns the number of pieces of work that were ever put on this stream.
  std::int64_t position() const;
  /// Runs work until `position` pieces are done.
  void finish_until(std::int64_t position);

 private:
  std::deque<std::function<void()>> waiting_;
  std::int64_t done_ = 0;
};

}  // namespace gpu
