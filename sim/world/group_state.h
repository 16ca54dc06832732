#pragma once

/// The world's state of a process group: the collectives at which members have arrived, and the messages
/// between members.
///
/// Calls   the world reads and writes it only between rounds.
/// Exact   calls are matched by their sequence numbers alone; the order of arrival never matters.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/comm/process_group.h"
#include "sim/world/posted_call.h"

namespace sim {

/// A collective that is not complete. It holds only the members that have arrived, so a member that runs far
/// ahead of the others uses memory for its own calls only.
struct Instance {
  std::vector<PostedCall*> arrived;  // in any order
  CallKey key;                       // of the call that arrived first
  int latest_place = -1;             // of the call that arrived last
  bool is_in_order = true;           // `arrived` has the order of the group
  bool have_one_key = true;          // all calls have the key of the first one

  [[gnu::always_inline]] void add(PostedCall& call) {
    if (latest_place < 0) key = call.call.key;
    is_in_order = is_in_order && latest_place < call.place;
    have_one_key = have_one_key && key == call.call.key;
    latest_place = call.place;
    arrived.push_back(&call);
  }
  /// Whether disagreement() has to look at the calls: their keys differ, or they have rare arguments.
  bool may_differ() const {
    const Operation operation = key.operation();
    return !have_one_key || key.has_factor() || operation == Operation::all_to_all_uneven ||
           operation == Operation::new_group;
  }
};

/// A send that has been posted. An eager send is already done for its sender, and the message keeps a copy of
/// the call and of the data.
struct PostedSend {
  PostedCall* posted;                // null if the send is eager
  std::unique_ptr<const Call> kept;  // null unless the send is eager

  const Call& call() const { return posted == nullptr ? *kept : posted->call; }
};

/// The unmatched messages from one place to another, in order.
struct Channel {
  std::deque<PostedSend> sends;
  std::deque<PostedCall*> receives;
};

struct GroupState {
  ProcessGroup group;
  /// The members that run. In a world of shapes others may not: they are taken to call what these call.
  std::vector<int> running;
  std::int64_t first_sequence = 0;  // the sequence number of `first`
  Instance first;                   // the first collective that is not complete; nobody may have arrived yet
  std::map<std::int64_t, Instance> later;           // those after it, by sequence number
  std::map<std::pair<int, int>, Channel> channels;  // by the places of the sender and the receiver

  bool is_partial() const { return running.size() < group.members.size(); }
  /// Returns the collective with a sequence number, which is not complete.
  Instance& instance(std::int64_t sequence) { return sequence == first_sequence ? first : later[sequence]; }
};

/// The groups of a world, by kind and index.
using GroupTable = std::map<std::pair<std::string, int>, std::unique_ptr<GroupState>>;

}  // namespace sim
