#pragma once

/// Names the rank whose program ends the process, because a process that ends before its verdict must not
/// look like one that passed. The process writes to standard error the rank, the last call that it made, the
/// rule and what to try, and ends with exit code 3:
///
///   stack_overflow  the rank used more than its stack
///   rank_crashed    the rank received SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT
///   work_crashed    a thread that runs no rank received one of them while it did work that has a name
///   rank_terminated a thread that runs no rank, such as one that a rank has started, called
///                   std::terminate(), for instance because of an exception that left it
///   rank_exited     the rank called exit(), quick_exit(), _exit() or _Exit(), with any code. A thread that
///                   runs no rank is reported too, if it does so with code 0 while a watch lives
///
/// Calls   each world has a ProcessEndWatch while its ranks run. A program that runs many worlds makes one
///         for all of them, which costs less. The first watch installs signal handlers, and the last one
///         restores the earlier handlers. If the program has a handler of its own for a signal, the rank is
///         named first, and then that handler gets the signal. A signal on a thread that runs no rank goes
///         to the earlier handler. A thread that handles overflows has a stack for signals (signal_stack.h).
/// Exact   These ends are not caught: a system call that ends the process without the C library; exec(),
///         which replaces the program; signals that cannot be handled, such as SIGKILL. A child process that
///         a rank forked may end as it likes. _exit() and _Exit() are caught if this library is linked into
///         the program, and not if it is linked into a shared library that the program loads. A frame larger
///         than the guard of a stack (kGuardBytes) may step over the guard. It is caught if the program is
///         compiled with -fstack-clash-protection, which the installed CMake target asks for, and otherwise
///         if the rank makes a call in that frame. In a sanitizer build only exit() and quick_exit() are
///         caught, because the sanitizer reports signals.

#include <cstddef>

#include "sim/fibers/running_stack.h"
#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

class ProcessEndWatch {
 public:
  ProcessEndWatch();
  ~ProcessEndWatch();
  ProcessEndWatch(const ProcessEndWatch&) = delete;
  ProcessEndWatch& operator=(const ProcessEndWatch&) = delete;
};

[[noreturn]] void leave_foreign_stack();

/// Ends the process (stack_overflow) if the rank that this thread runs has left its stack. Every call checks
/// it.
inline void require_own_stack() {
  const Stack& stack = running_stack();
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  if (!kSanitized && stack.bottom != nullptr && (here < stack.bottom || here >= stack.top()))
    leave_foreign_stack();
}

/// While it lives, the work of this thread has a name, which is told if the process ends: a text such as "the
/// reference of mlp at tp 2, f32", which must live as long.
class NamedWork {
 public:
  explicit NamedWork(const char* name);
  ~NamedWork();
  NamedWork(const NamedWork&) = delete;
  NamedWork& operator=(const NamedWork&) = delete;

 private:
  const char* before_;
};

/// Ends the process (rank_terminated) if a watch lives. It is called in std::terminate(), on a thread that
/// runs no rank.
void end_terminated_process();

/// Ends the process with this code, and names nobody. Handlers of signals may call it.
[[noreturn]] void end_process(int exit_code);

}  // namespace sim
