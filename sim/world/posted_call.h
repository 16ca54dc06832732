#pragma once

/// A call that a virtual rank has posted to the world. The rank owns it until wait() has returned; the world
/// matches it with other calls and completes it.
///
/// Calls   the rank writes it before it posts it. After that only the world writes it, between rounds.

#include <utility>

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"

namespace sim {

struct GroupState;
class RankState;

class PostedCall : public Pending {
 public:
  PostedCall(RankState& rank, GroupState& group, int at_place, Call&& posted);
  /// Returns when the call is done, and throws WorldEnded if it never will be. It refuses (wrong_rank) if
  /// another rank than the one that made the call waits.
  void wait() override;

  Call call;
  RankState& rank_state;
  GroupState& group_state;
  int place;
  bool done = false;
  GroupState* made = nullptr;  // split and new_group: the new group; null if this rank is in none
  int made_place = -1;         // split and new_group: this rank's place in the new group

 private:
  const Device* device_;  // the rank's device; it is only compared, because the rank may be over
};

}  // namespace sim
