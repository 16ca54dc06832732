#pragma once

/// Reports a stack overflow of a rank. Such a rank cannot be unwound, so the process writes to standard error
/// which rank it was and what to try, and ends with exit code 3.
///
/// Calls   each thread that runs fibers has one StackOverflowWatch and calls note_running() before each
///         switch to a fiber. Without guard pages an overflow is not detected. In a sanitizer build the
///         sanitizer reports it instead.

#include <memory>

#include "sim/fibers/stack_pool.h"

namespace sim {

/// Gives the thread an alternate stack, on which the signal of an overflow is handled, unless the thread has
/// one already.
class StackOverflowWatch {
 public:
  StackOverflowWatch();
  ~StackOverflowWatch();
  StackOverflowWatch(const StackOverflowWatch&) = delete;
  StackOverflowWatch& operator=(const StackOverflowWatch&) = delete;

 private:
  std::unique_ptr<std::byte[]> signal_stack_;
};

/// Records that this thread is about to switch to the stack of this rank.
void note_running(const Stack& stack, int rank);

}  // namespace sim
