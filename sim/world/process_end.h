#pragma once

/// Names the rank whose program ends the process, because a process that ends before its verdict must not
/// look as if it had one. The process writes to standard error which rank it was, the last call that it made,
/// the rule and what to try, and ends with exit code 3:
///
///   stack_overflow  the rank used more than its stack
///   rank_crashed    the rank came to SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT
///   rank_exited     the rank called exit(), quick_exit(), _exit() or _Exit(), with any code. A thread that
///                   runs no rank is told of as well if it does so with code 0 before the watch is over
///
/// Calls   each world has a ProcessEndWatch while its ranks run, and whoever runs many worlds has one for all
///         of them, which costs less. The handlers of signals are installed with the first watch, and with
///         the last one those that were there before are restored. If the program has a handler of its own
///         for a signal, the rank is named, and then that handler gets the signal. A signal on a thread that
///         runs no rank is left to what was there before. A thread that handles overflows has a SignalStack.
/// Exact   not caught are: a system call that ends the process without the C library; exec(), which puts
///         another program in its place; signals that cannot be handled, such as SIGKILL. The end of a child
///         process that a rank forked is the child's own. _exit() and _Exit() are caught where this library
///         is linked into the program, and not where it is linked into a shared library that the program
///         loads. A frame larger than the guard of a stack (kGuardBytes) may step over it: it is caught where
///         the program is compiled with -fstack-clash-protection, which the installed CMake target asks for,
///         and otherwise if the rank makes a call in it. In a sanitizer build only exit() and quick_exit()
///         are caught: the sanitizer reports signals.

namespace sim {

class ProcessEndWatch {
 public:
  ProcessEndWatch();
  ~ProcessEndWatch();
  ProcessEndWatch(const ProcessEndWatch&) = delete;
  ProcessEndWatch& operator=(const ProcessEndWatch&) = delete;
};

/// Ends the process (stack_overflow) if the rank that this thread runs has left its stack. Every call checks
/// it.
void require_own_stack();

/// Ends the process with this code, and names nobody. Handlers of signals may call it.
[[noreturn]] void end_process(int exit_code);

}  // namespace sim
