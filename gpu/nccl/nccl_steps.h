#pragma once

/// A call of one member as operations of NCCL: a list that says what NCCL is asked for, without asking it.
///
///   all_reduce, reduce_scatter, all_gather, broadcast, reduce   NCCL's own
///   gather, scatter, all_to_all, all_to_all_uneven              sends and receives of one group, by
///                                                               ascending peer; the member's own block is a
///                                                               copy
///   send, recv                                                  themselves
///   barrier                                                     an all_reduce of one element
///
/// Shapes  offsets and counts in elements; peer: a place, of a collective its root. A barrier's element lies
///         in input and output.
/// Calls   the steps of a call go in one ncclGroup. What has no elements has no step, on either side of a
///         message.
/// Exact   an average is a sum here: the member scales what it gets by 1/n itself, one multiplication after
///         the last addition, as sim/tensor/reduce_op.h has it.

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
  std::int64_t count;  // as NCCL counts: of a reduce_scatter what one gets, of an all_gather what one gives
  int peer = -1;
  bool operator==(const NcclStep&) const = default;
};

std::vector<NcclStep> nccl_steps(const sim::Call& call, int members, int place);

/// What NCCL is asked to do in a reduction.
inline sim::ReduceOp nccl_reduction(sim::ReduceOp op) {
  return op == sim::ReduceOp::average ? sim::ReduceOp::sum : op;
}

}  // namespace gpu
