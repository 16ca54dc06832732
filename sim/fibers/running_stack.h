#pragma once

/// The stack of the rank that this thread runs at the moment, so that its overflow can be distinguished
/// from other faults.
///
/// Shapes  the stack of a fiber is one of the pool (stack_pool.h); that of a rank that is a thread is the
///         thread's own.
/// Calls   a context sets it for as long as the body runs.

#include <utility>

#include "sim/fibers/stack_pool.h"

namespace sim {

/// Whether the address lies in the guard below the stack, so that an access to it was an overflow.
bool is_in_guard(const Stack& stack, const void* address);

/// Returns the stack of this thread.
Stack stack_of_this_thread();

/// While an object of this class lives, its thread runs a rank on the stack.
class RunningStack {
 public:
  explicit RunningStack(const Stack& stack) : before_(std::exchange(current_, stack)) {}
  ~RunningStack() { current_ = before_; }
  RunningStack(const RunningStack&) = delete;
  RunningStack& operator=(const RunningStack&) = delete;

  static const Stack& current() { return current_; }
  /// The thread runs another rank in the place of the one that it runs.
  static void hand_over(const Stack& stack) { current_ = stack; }

 private:
  /// It is a thread-local global because a signal handler is given only the address of the fault. Only
  /// messages depend on it, never results.
  static inline constinit thread_local Stack current_;
  Stack before_;
};

/// Returns the stack; its bottom is null if this thread runs no rank. Signal handlers may call it.
inline const Stack& running_stack() { return RunningStack::current(); }

}  // namespace sim
