#pragma once

/// One rank's communication call: which operation, on which tensors, and what has to agree with the other
/// members.
///
/// Shapes  count, in elements, of
///           all_reduce, broadcast, reduce, send, recv   the tensor
///           reduce_scatter, scatter                     the output: a block of 1/n of the input
///           all_gather, gather                          the input: a block of 1/n of the output
///           all_to_all                                  a block: 1/n of the input and of the output
///           all_to_all_uneven                           the input: the rows this rank sends
///           barrier, split, new_group                   0

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/site.h"
#include "sim/comm/process_group.h"
#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace sim {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  all_to_all_uneven,
  send,
  recv,
  barrier,
  split,
  new_group,
};

constexpr std::string_view name_of(Operation operation) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "reduce_scatter",    "all_gather", "broadcast", "reduce",  "gather", "scatter",
      "all_to_all", "all_to_all_uneven", "send",       "recv",      "barrier", "split",  "new_group"};
  return operation <= Operation::new_group ? kNames[static_cast<std::size_t>(operation)] : "no operation";
}

constexpr bool is_point_to_point(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}
constexpr bool has_reduce_op(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}
constexpr bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce ||
         operation == Operation::gather || operation == Operation::scatter;
}
constexpr bool moves_data(Operation operation) { return operation < Operation::barrier; }
/// Whether a member gives an input, and gets an output. At the root of a broadcast the tensor is given only.
constexpr bool gives(Operation operation, bool is_root) {
  const bool from_root = operation == Operation::broadcast || operation == Operation::scatter;
  return operation != Operation::recv && (is_root || !from_root);
}
constexpr bool gets(Operation operation, bool is_root) {
  const bool to_root = operation == Operation::reduce || operation == Operation::gather;
  return operation != Operation::send && (is_root || !to_root) &&
         !(is_root && operation == Operation::broadcast);
}
/// Input and output may be one tensor.
constexpr bool is_in_place(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce;
}

struct Call {
  Operation operation;
  Site site;
  Tensor input = {};   // none where this rank gives nothing
  Tensor output = {};  // none where it gets nothing; the same as input where the call works in place
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1;                                // place in the group
  int peer = -1;                                // place in the group: of a send or recv
  std::vector<std::int64_t> send_rows = {};     // all_to_all_uneven: rows to each place
  std::vector<std::int64_t> receive_rows = {};  // and from each
  int color = 0, key = 0;                       // split
  std::string name = {};                        // new_group
  std::vector<int> members = {};                // new_group
  std::int64_t count = 0;
  DType dtype = DType::f64;
  std::int64_t sequence =
      0;  // number of the call: among the group's collectives, or the messages of this pair
};

/// What is kept of a call when it is over.
struct CallRecord {
  const ProcessGroup* group;
  Site site;
  std::int64_t sequence;
  std::int64_t count;         // elements
  std::int64_t bytes_inside;  // sent to ranks of the same node (ring_traffic.h)
  std::int64_t bytes_across;  // sent to other nodes
  int root_or_peer;           // place in the group, -1 for none
  Operation operation;
  DType dtype;
  ReduceOp reduce_op;
  bool waited;
};

}  // namespace sim
