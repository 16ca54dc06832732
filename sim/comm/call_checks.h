#pragma once

/// The checks that every call passes, and its record. They are inline and get the operation as an argument.
/// So each operation of Communicator has a copy of its own in which it is a constant, and a call costs only
/// the checks that its operation needs. Only sim/comm includes this header.

#include <cstddef>
#include <cstdint>

#include "sim/comm/communicator.h"
#include "sim/tensor/device.h"
#include "sim/tensor/running_device.h"

namespace sim {

inline std::int64_t count_or_zero(const Tensor& tensor) { return tensor.is_none() ? 0 : tensor.count(); }

/// For an operation with one block on one side and n blocks on the other, returns the tensor that is the
/// single block, whose count is the count of the call, and the tensor that has all blocks.
constexpr bool output_is_block(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::scatter;
}
inline const Tensor& block_of(Operation operation, const Call& call) {
  return output_is_block(operation) ? call.output : call.input;
}
inline const Tensor& whole_of(Operation operation, const Call& call) {
  return output_is_block(operation) ? call.input : call.output;
}

[[gnu::always_inline]] inline void Communicator::require_places(Operation operation, const Call& call) const {
  const auto is_place = [&](int place) { return place >= 0 && place < size(); };
  const bool has_no_op = has_reduce_op(operation) && call.reduce_op > ReduceOp::average;
  const bool has_no_root = has_root(operation) && !is_place(call.root);
  const bool has_no_peer = is_point_to_point(operation) && (!is_place(call.peer) || call.peer == place_);
  if (has_no_op || has_no_root || has_no_peer) refuse_places(call);
}

/// Whether a tensor is this rank's, and no call has any of its storage in flight.
[[gnu::always_inline]] inline bool Communicator::is_usable(const Tensor& tensor) const {
  return !tensor.is_none() && &tensor.device() == &device_ && tensor.storage().has_no_flights();
}
[[gnu::always_inline]] inline void Communicator::require_tensor(const Call& call, const Tensor& tensor,
                                                                Access access) const {
  if (!is_usable(tensor)) require_usable_tensor(call, tensor, access);
}

/// Whether a call works in place, on one tensor; and whether one that may not has tensors that overlap.
[[gnu::always_inline]] inline bool has_one_tensor(Operation operation, const Call& call) {
  return is_in_place(operation) && &*call.input == &*call.output;
}
[[gnu::always_inline]] inline bool has_overlap(Operation operation, const Call& call) {
  return !is_in_place(operation) && call.input->overlaps(call.output);
}

/// Replaces the tensors that this member neither reads nor writes by Tensor(), and checks the others.
[[gnu::always_inline]] inline void Communicator::require_tensors(Operation operation, Call& call) const {
  const bool is_root = has_root(operation) && place_ == call.root;
  const bool has_input = gives(operation, is_root);
  const bool has_output = gets(operation, is_root);
  const bool has_both = has_input && has_output;
  if (has_both && has_one_tensor(operation, call) && is_usable(call.input)) {
    call.dtype = call.input->dtype();
    return;
  }
  if (!has_input) call.input = CallTensor();
  if (!has_output) call.output = CallTensor();
  if (has_input) require_tensor(call, call.input, Access::read);
  if (has_output) require_tensor(call, call.output, Access::write);
  call.dtype = has_input ? call.input->dtype() : call.output->dtype();
  if (!has_both) return;
  if (call.input->dtype() != call.output->dtype()) refuse_dtypes(call);
  if (has_overlap(operation, call) && !is_own_block(call)) refuse_overlap(call);
}

inline std::int64_t count_of_either(const Call& call) {
  return call.input->is_none() ? call.output->count() : call.input->count();
}

/// Returns the count of a call of n members: of a block, if it has blocks.
[[gnu::always_inline]] inline std::int64_t count_of(Operation operation, const Call& call, std::int64_t n) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send:
    case Operation::recv:
      return count_of_either(call);
    case Operation::all_to_all_uneven:
      return call.input->count();
    case Operation::all_to_all:
      return call.input->count() / n;
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
      return count_or_zero(block_of(operation, call));
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
      break;
  }
  return 0;
}

/// Whether the tensors of a call with blocks have as many elements as n blocks.
[[gnu::always_inline]] inline bool has_whole_blocks(Operation operation, const Call& call, std::int64_t n) {
  if (operation == Operation::all_to_all)
    return call.count * n == call.input->count() && call.input->count() == call.output->count();
  const bool has_blocks = operation == Operation::reduce_scatter || operation == Operation::all_gather ||
                          operation == Operation::gather || operation == Operation::scatter;
  if (!has_blocks) return true;
  const Tensor& whole = whole_of(operation, call);
  return whole.is_none() || whole.count() == n * call.count;
}

[[gnu::always_inline]] inline void Communicator::require_counts(Operation operation, Call& call) const {
  call.count = count_of(operation, call, size());
  if (operation == Operation::all_to_all_uneven) require_uneven(call);
  if (!has_whole_blocks(operation, call, size())) refuse_blocks(call);
}

[[gnu::always_inline]] inline std::int64_t Communicator::next_sequence(Operation operation,
                                                                       const Call& call) {
  if (!is_point_to_point(operation)) return collectives_++;
  return (operation == Operation::send ? sent_ : received_)[call.peer]++;
}

/// Checks a call, and gives it what its record and its group need.
[[gnu::always_inline]] inline void Communicator::check_call(Operation operation, Call& call) {
  if (running_device() != &device_) refuse_caller(call);
  require_places(operation, call);
  if (moves_data(operation)) {
    require_tensors(operation, call);
    require_counts(operation, call);
  }
  call.key = {operation, call.dtype, call.reduce_op, has_root(operation) ? call.root : call.peer, call.count};
  call.sequence = next_sequence(operation, call);
}

[[gnu::always_inline]] inline void Communicator::run(Operation operation, Call&& call) {
  check_call(operation, call);
  bool& was_waited_for = recorder_->add_blocking(call, group_, place_);
  if (size() == 1) {
    copy_as_identity(call);
  } else {
    do_blocking_call(call);
  }
  was_waited_for = true;
}

}  // namespace sim
