#pragma once

/// Where experts live: expert e belongs to the expert-parallel rank e / El, where El = E / ep experts are
/// local to a rank, and its matrices are cut over the expert-tensor-parallel group.
///
/// Shapes  place p of the tp-ep group is the expert-parallel rank p / etp and the expert-tensor-parallel rank
///         p % etp: expert-tensor-parallel ranks are adjacent.
/// Errors  experts_ep: no experts, or a number that is not a multiple of ep; expert_group_order: a rank order
///         in which the places of tp-ep are not as stated, so that counts would be read for other experts.
/// Source  Megatron-LM, moe/token_dispatcher.py and moe/moe_layer.py.

#include <cstdint>

#include "sim/comm/rank.h"

namespace sim {

struct ExpertGrid {
  Communicator& ep;
  Communicator& etp;
  Communicator& tp_ep;
  std::int64_t experts = 0;  // E

  std::int64_t local_experts() const { return experts / ep.size(); }
  std::int64_t first_local_expert() const { return ep.rank() * local_experts(); }
  /// Whether the gradients of experts are reduced over other ranks than those of dense parameters.
  bool differs_from_dense_grid(int tp) const { return ep.size() > 1 || etp.size() != tp; }
};

ExpertGrid expert_grid(Rank& rank, std::int64_t experts);

}  // namespace sim
