#pragma once

/// The process groups of one rank: the groups of the layout, which are found by the names of their kinds, and
/// the groups that ranks make with new_group.
///
/// Calls   every rank of the world makes the same new_group calls in the same order, whether it is a member
///         of the new group or not. Ranks outside may make groups of themselves alone in the same call.
/// Errors  no_such_group: the layout has no such kind, or this rank is in no group of the kind; bad_group: a
///         member is not a rank of the world, a member is listed twice, or there are no members;
///         bad_group_name: the name is empty, contains a bracket, or is the name of a group of the layout.
/// Source  Megatron-LM parallel_state.py; torch.distributed.new_group.

#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/communicator.h"

namespace sim {

class Groups {
 public:
  virtual ~Groups() = default;
  /// Returns the group of all ranks, in ascending order.
  virtual Communicator& world() = 0;
  /// Returns this rank's group of a kind, such as "tp".
  virtual Communicator& get(std::string_view kind) = 0;
  /// Returns this rank's group of a kind, or null if there is none.
  virtual Communicator* find(std::string_view kind) = 0;
  /// Makes a new group. Returns null on ranks that are not members of it.
  virtual Communicator* new_group(std::string name, const std::vector<int>& members, Site site) = 0;
};

}  // namespace sim
