#pragma once

/// Translates a call of one member into a list of NCCL operations, without calling NCCL.
///
///   all_reduce, reduce_scatter, all_gather, broadcast, reduce   NCCL's own operations
///   gather, scatter, all_to_all, all_to_all_uneven              sends and receives in one group, by
///                                                               ascending peer; the member's own block is a
///                                                               copy
///   send, recv                                                  themselves
///   barrier                                                     an all_reduce of one element
///
/// Shapes  Offsets and counts are in elements. peer is a place; for a collective it is the root. The element
///         of a barrier is its input and output.
/// Calls   The steps of a call go into one ncclGroup. A block without elements has no step, on either side of
///         a message.
/// Exact   An average is a sum here. The member itself scales the result by 1/n, with one multiplication
///         after the last addition, as in sim/tensor/reduce_op.h.

#include <cstdint>
#include <vector>

#include "sim/comm/call.h"

namespace gpu {

enum class NcclOperation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  send,
  recv,
  copy,
};

enum class NcclBuffer : std::uint8_t { none, input, output };

struct NcclSpot {
  NcclBuffer buffer = NcclBuffer::none;
  std::int64_t offset = 0;
  bool operator==(const NcclSpot&) const = default;
};

struct NcclStep {
  NcclOperation operation;
  NcclSpot from;
  NcclSpot to;
  /// The count that NCCL takes: for a reduce_scatter the elements that a member gets, for an all_gather
  /// those that it gives.
  std::int64_t count;
  int peer = -1;
  bool operator==(const NcclStep&) const = default;
};

std::vector<NcclStep> nccl_steps(const sim::Call& call, int members, int place);

/// Returns the reduction that NCCL is asked for: a sum for an average.
inline sim::ReduceOp nccl_reduction(sim::ReduceOp op) {
  return op == sim::ReduceOp::average ? sim::ReduceOp::sum : op;
}

}  // namespace gpu
