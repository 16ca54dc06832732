#pragma once

/// A rank that overflows its stack cannot be unwound: the process says which rank it was and what to try, on
/// standard error, and ends with exit code 3.
///
/// Calls   one StackOverflowWatch lives on each thread that runs fibers; note_running() before each switch to
///         one. Where there are no guard pages, an overflow is not seen. Under a sanitizer the sanitizer
///         reports it.

#include <memory>

#include "sim/fibers/stack_pool.h"

namespace sim {

/// Gives the thread a second stack, on which the signal of an overflow can be handled, unless it has one.
class StackOverflowWatch {
 public:
  StackOverflowWatch();
  ~StackOverflowWatch();
  StackOverflowWatch(const StackOverflowWatch&) = delete;
  StackOverflowWatch& operator=(const StackOverflowWatch&) = delete;

 private:
  std::unique_ptr<std::byte[]> signal_stack_;
};

/// This thread switches to a stack of this rank.
void note_running(const Stack& stack, int rank);

}  // namespace sim
