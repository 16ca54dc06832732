#pragma once

/// The program of a rank that is played by a guest: a process of its own, such as a Python program. It reads
/// a request of the process (guest_request.h), makes the call on an ordinary communicator, and answers. So
/// all that a world does for programs in C++, it does for guests.
///
/// Shapes  one end for each rank of the world, in ascending order.
/// Calls   an answer is a frame, too: {} when it is done, or started; {"group": N, "place": P} for a group
///         that this rank is in, and {"group": null} for another one; {"refused": {code, option, numbers,
///         rule, hint}} for a call that is refused, after which the guest goes on; {"ended": true} when the
///         world has ended, because ranks cannot go on.
/// Errors  findings of the run: those of frames.h, segment.h and guest_request.h; a refusal by which the
///         guest's program has ended, as of a program in C++; and guest_raised, for a program that ends by
///         another exception or exit code, with its text.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/guest/guest_place.h"

namespace sim {

/// How a rank reaches its process. Both descriptors stay the caller's.
struct GuestEnd {
  int socket = -1;   // of a Unix stream
  int segment = -1;  // a memory file that can be sealed
};

/// A group that guests have made.
struct GuestGroup {
  std::string name;
  std::vector<int> members;  // global ranks
};

/// What is known of guests besides the report of their run. Others may read `calls` meanwhile.
struct GuestRecord {
  std::atomic<std::int64_t> calls = 0;  // that were started
  std::vector<GuestGroup> groups;       // in the order in which they were made
  std::string told;                     // what the first rank's program has told last; not read here
  /// By place of the rank in the world: where each value that it has published lies. The values themselves
  /// are RankReport::published.
  std::vector<std::vector<GuestPlace>> places;
};

/// Returns the program that serves the guests. The record outlives it.
RankProgram guest_program(std::vector<GuestEnd> ends, GuestRecord& record);

}  // namespace sim
