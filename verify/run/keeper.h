#pragma once

/// A process between this one and those of a program. It ends all that the program has started, and what that
/// has started in turn, when the program has ended or when this process has, however that comes about.
///
/// Calls   become_keeper() in a fork, which it never leaves. This process ends the keeper by closing the
///         other end of `life`, or by its own end.
/// Exact   when this process ends it, ranks first write the lines at which they stand (start.py). It ends as
///         its first child does, with the same exit code or by the same signal.
///         It waits for its children by the system's word alone. A child whose parent has ended becomes a
///         child of the keeper, also one in a session of its own.

#include <functional>

namespace verify {

/// `life` is a socket whose other end is closed when this process wants the end, or has ended. `become` turns
/// a child into the program, the starter. `forget` closes, in the keeper, what only others use.
[[noreturn]] void become_keeper(int life, const std::function<void()>& become,
                                const std::function<void()>& forget);

/// Has a keeper end all of its children but the starter: what ranks have left. `life` is this process's end.
/// Where the starter has ended, the keeper has ended all of them itself.
void keeper_sweeps(int life);

/// While it lives, SIGINT, SIGTERM and SIGHUP end the keeper and all that it keeps, and then this process,
/// with exit code 128 plus the signal. A signal that was ignored stays ignored. There is one object at a
/// time.
class InterruptsEndKeeper {
 public:
  /// `life` is this process's end, `keeper` the process.
  InterruptsEndKeeper(int life, int keeper);
  ~InterruptsEndKeeper();
  InterruptsEndKeeper(const InterruptsEndKeeper&) = delete;
  InterruptsEndKeeper& operator=(const InterruptsEndKeeper&) = delete;
};

}  // namespace verify
