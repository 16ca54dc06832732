#pragma once

/// A process between this one and those of a program. It ends all that the program has started, and what that
/// has started in turn, when the program has ended or when this process has, however that comes about.
///
/// Calls   become_keeper() in a fork, which it never leaves. This process ends the keeper by closing the
///         other end of `life`, or by its own end.
/// Exact   when this process ends it, ranks first write the lines at which they stand (start.py).
///         It waits for its children by the system's word alone. A child whose parent has ended becomes a
///         child of the keeper, also one in a session of its own.

#include <functional>

namespace verify {

struct KeeperEnds {
  int life = -1;    // a pipe that is closed when this process wants the end, or has ended
  int status = -1;  // gets a line at the end of the program's first process: "starter 1", "starter -9"
};

/// `become` turns a child into the program. `forget` closes, in the keeper, what only others use.
[[noreturn]] void become_keeper(const KeeperEnds& ends, const std::function<void()>& become,
                                const std::function<void()>& forget);

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
