#pragma once

/// A rank whose program waits for something that is no call, such as a request of another process. The rank
/// is then outside: the world goes on with the ranks that can run, and sleeps while all of them are outside.
/// It decides that ranks cannot go on when none is ready and none is outside.
///
/// Calls   only the program of a rank of a virtual world, for its own rank. With the schedules uniform and
///         pct the world stands still meanwhile, so that the schedule depends on the seed alone.
/// Exact   when a rank comes back changes no result: calls are matched by their places and numbers.

namespace sim {

/// Returns when the file descriptor is readable or has been hung up.
void wait_until_readable(int descriptor);

}  // namespace sim
