#pragma once

/// The timeline of a run in logical time: the time at which each step would happen if work, calls and bytes
/// cost what TimelineCost says. It reads no clock. It depends on what the ranks computed and called, and
/// not on the schedule, the threads or the machine.
///
///   compute  a rank computes between two calls
///   call     a collective begins when its last member has made the call, and a message when both sides have.
///            It ends at the same time for all members. The collectives of a group run one after the other,
///            and so do the messages from one rank to another
///   wait     a rank has made a blocking call that has not begun, or waits for a started call that has not
///            ended
///
/// Shapes  the slices in lane 0 of a rank cover its time from 0 to its end without a gap. Started calls have
///         further lanes, as few as can hold them without overlap. Each call has one slice of kind call.
///         Empty slices of kind compute and wait are left out.
/// Calls   the run must have used a CountingDevice; with any other device ranks have no moments and no
///         slices.
/// Exact   a call takes the latency plus the cost of the bytes of the member whose bytes cost most; in a
///         group of one member it takes no time. A send of up to eager_bytes ends without its recv. A call
///         that never completes, because a member never makes it or the members disagree, lasts until all
///         other slices have ended and one latency more. What a rank does while its world ends is left
///         out.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/world/simulate.h"

namespace sim {

/// The cost of each step, in units of logical time.
struct TimelineCost {
  std::int64_t work = 1;         // cost of a unit of work (counting_device.h)
  std::int64_t latency = 64;     // cost of a call between ranks, without its bytes
  std::int64_t byte_inside = 1;  // cost of a byte sent to a rank of the same node
  std::int64_t byte_across = 8;  // cost of a byte sent to a rank of another node
  std::int64_t eager_bytes = 0;  // not a cost: the eager_bytes of the run's WorldSpec
};

enum class SliceKind : std::uint8_t { compute, call, wait };

struct Slice {
  SliceKind kind = SliceKind::compute;
  int lane = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t record = 0;  // index of the call's record; unused for compute
  bool is_vain = false;    // the call never completes; `end` is the end of the timeline
  bool operator==(const Slice&) const = default;
};

/// A send and its recv.
struct MatchedMessage {
  std::size_t from;  // the sender, as an index into RunReport::ranks
  std::size_t send;  // index of the sender's record
  std::size_t to;    // the receiver, as an index into RunReport::ranks
  std::size_t recv;  // index of the receiver's record
  bool operator==(const MatchedMessage&) const = default;
};

/// The times of one call of a rank.
struct CallTimes {
  bool is_made = false;    // false: the rank made the call while its world ended; it has no times
  bool ends = false;       // false: the call never completes, and has no begin and no end
  std::int64_t made = 0;   // the rank made the call
  std::int64_t begin = 0;  // the last member made it
  std::int64_t end = 0;
  bool operator==(const CallTimes&) const = default;
};

struct RunTimeline {
  std::vector<std::vector<Slice>> ranks;      // in the order of RunReport::ranks; each lane is sorted by time
  std::vector<std::vector<CallTimes>> calls;  // in the order of RunReport::ranks and of their records
  std::vector<MatchedMessage> messages;
  std::int64_t length = 0;  // the time at which the last slice ends
  bool operator==(const RunTimeline&) const = default;
};

RunTimeline run_timeline(const RunReport& run, const TimelineCost& cost = {});

}  // namespace sim
