#pragma once

/// A call that a virtual rank has posted to the world. The rank owns it until wait() has returned; the world
/// matches it with other calls and completes it. A call that blocks lies on the stack of its rank, and a
/// StartedCall keeps one that outlives the function that started it.
///
/// Calls   the rank writes it before it posts it. After that only the world writes it, between rounds.

#include <cstdint>
#include <utility>

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"

namespace sim {

struct GroupState;
class RankState;

class PostedCall {
 public:
  PostedCall(RankState& rank, GroupState& group, int at_place, Call& posted)
      : call(posted), rank_state(rank), group_state(group), place(at_place) {}
  PostedCall(const PostedCall&) = delete;
  PostedCall& operator=(const PostedCall&) = delete;

  Operation operation() const { return call.operation; }
  std::int64_t sequence() const { return call.sequence; }

  Call& call;
  RankState& rank_state;
  GroupState& group_state;
  PostedCall* next = nullptr;  // the next call of the rank's outbox
  int place;
  bool done = false;
  GroupState* made = nullptr;  // split and new_group: the new group; null if this rank is in none
  int made_place = -1;         // split and new_group: this rank's place in the new group
};

class StartedCall : public Pending {
 public:
  StartedCall(RankState& rank, GroupState& group, int place, Call&& started);
  PostedCall& posted() { return posted_; }
  /// Returns when the call is done, and throws WorldEnded if it never will be. It refuses (wrong_rank) if
  /// another rank than the one that made the call waits.
  void wait() override;

 private:
  Call call_;
  PostedCall posted_;
  const Device* device_;  // the rank's device; it is only compared, because the rank may be over
};

}  // namespace sim
