#pragma once

/// A process group as the world sees it: which collectives its members have arrived at, and the messages
/// between them.
///
/// Calls   touched between the rounds only.
/// Exact   what is matched with what depends on sequence numbers alone, never on who came first.

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "sim/comm/process_group.h"
#include "sim/world/posted_call.h"

namespace sim {

/// A collective, as far as members have arrived: one that runs far ahead of the others costs memory for
/// itself alone.
struct Instance {
  std::vector<PostedCall*> arrived;  // in any order
};

/// A send that has been posted. An eager one is over for its sender; the message keeps the data.
struct Message {
  Call call;
  PostedCall* posted;  // null when eager
};

/// Messages from one place to another, in order.
struct Channel {
  std::deque<Message> sends;
  std::deque<PostedCall*> receives;
};

struct GroupState {
  ProcessGroup group;
  std::int64_t first_sequence = 0;
  std::deque<Instance> pending;                     // from first_sequence on
  std::map<std::pair<int, int>, Channel> channels;  // from place, to place

  /// The collective this call belongs to; it is pending.
  Instance& instance_of(const Call& call) {
    return pending[static_cast<std::size_t>(call.sequence - first_sequence)];
  }
};

}  // namespace sim
