#pragma once

/// The process groups of one rank: those of the layout, by the names of their kinds, and those it makes
/// itself.
///
/// Calls   every rank of the world makes the same new_group calls in the same order, member or not.
/// Errors  no_such_group: the layout has no such kind, or this rank is in none of its groups; bad_group:
///         members that are no ranks of the world, or not each once; bad_group_name: one that a group of the
///         layout has.
/// Source  Megatron-LM parallel_state.py; torch.distributed.new_group.

#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/communicator.h"

namespace sim {

class Groups {
 public:
  virtual ~Groups() = default;
  /// All ranks, in order.
  virtual Communicator& world() = 0;
  /// This rank's group of a kind: "tp".
  virtual Communicator& get(std::string_view kind) = 0;
  /// The same; null where there is none.
  virtual Communicator* find(std::string_view kind) = 0;
  /// A new group; null for a rank that is no member.
  virtual Communicator* new_group(std::string name, const std::vector<int>& members, Site site) = 0;
};

}  // namespace sim
