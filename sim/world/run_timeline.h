#pragma once

/// When everything of a run happens, in logical time: what it would take if work, calls and bytes cost what
/// TimelineCost says. No clock is read; the timeline depends on what the ranks computed and called, not on
/// the schedule, the threads or the machine.
///
///   compute  a rank computes from one call to the next
///   call     a collective begins when its last member has come to it, and ends for all together; a message
///            when both sides have. The collectives of a group follow each other, and so do the messages from
///            one rank to another
///   wait     a rank is at a blocking call that has not begun, or waits for a started one that has not ended
///
/// Shapes  the slices of a rank's lane 0 fill its time from 0 to its end without a gap; calls that were
///         started lie beside it, in as few further lanes as hold them. Each call has one slice of kind call.
///         Empty slices of compute and wait are left out.
/// Calls   of a run on a CountingDevice; on any other, ranks have no moments, and no slices.
/// Exact   a call takes latency and the bytes of the member that sends most; in a group of one nothing. A
///         send of up to eager_bytes ends without its recv. A call that a rank waits for in vain, because a
///         member never comes or they disagree, lasts until the end of all and a latency more; what the rank
///         does while its world ends is left out.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/world/simulate.h"

namespace sim {

/// In units of time.
struct TimelineCost {
  std::int64_t work = 1;         // of a unit of work (counting_device.h)
  std::int64_t latency = 64;     // of a call between ranks
  std::int64_t byte_inside = 1;  // of a byte sent to the same node
  std::int64_t byte_across = 8;  // of a byte sent to another node
  std::int64_t eager_bytes = 0;  // as in the run's WorldSpec
};

enum class SliceKind : std::uint8_t { compute, call, wait };

struct Slice {
  SliceKind kind = SliceKind::compute;
  int lane = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t record = 0;  // of the rank's calls, but for compute
  bool is_vain = false;    // it never ends; `end` is that of the timeline
  bool operator==(const Slice&) const = default;
};

/// A send and its recv: places in RunReport::ranks, and records of these ranks.
struct MatchedMessage {
  std::size_t from;
  std::size_t send;
  std::size_t to;
  std::size_t recv;
  bool operator==(const MatchedMessage&) const = default;
};

struct RunTimeline {
  std::vector<std::vector<Slice>> ranks;  // as in RunReport; of each lane by time
  std::vector<MatchedMessage> messages;
  std::int64_t length = 0;
  bool operator==(const RunTimeline&) const = default;
};

RunTimeline run_timeline(const RunReport& run, const TimelineCost& cost = {});

}  // namespace sim
