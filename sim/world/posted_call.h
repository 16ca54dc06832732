#pragma once

/// A call that a virtual rank has posted: its rank owns it until wait() is over, the world matches and
/// completes it.
///
/// Calls   the rank writes it before it posts it; between the rounds only the world touches it.

#include <utility>

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"

namespace sim {

struct GroupState;
class RankState;

class PostedCall : public Pending {
 public:
  PostedCall(RankState& rank, GroupState& group, int at_place, Call&& posted);
  /// Returns when the call is done; throws WorldEnded when it never will be. Refuses a rank that is not the
  /// call's (wrong_rank).
  void wait() override;

  Call call;
  RankState& rank_state;
  GroupState& group_state;
  int place;
  bool done = false;
  GroupState* made = nullptr;  // of split and new_group: the group this rank is now in
  int made_place = -1;

 private:
  const Device* device_;  // of the rank, which may be over
};

}  // namespace sim
