#pragma once

/// One rank's communication call: the operation, its tensors, and the values on which all members of the
/// group have to agree.
///
/// Shapes  count, in elements, of
///           all_reduce, broadcast, reduce, send, recv   the tensor
///           reduce_scatter, scatter                     the output: a block of 1/n of the input
///           all_gather, gather                          the input: a block of 1/n of the output
///           all_to_all                                  a block: 1/n of the input and of the output
///           all_to_all_uneven                           the input: all rows that this rank sends
///           barrier, split, new_group                   0

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
/// gives() says whether a member has an input, and gets() whether it has an output. At the root of a
/// broadcast the tensor is only an input.
constexpr bool gives(Operation operation, bool is_root) {
  const bool from_root = operation == Operation::broadcast || operation == Operation::scatter;
  return operation != Operation::recv && (is_root || !from_root);
}
constexpr bool gets(Operation operation, bool is_root) {
  const bool to_root = operation == Operation::reduce || operation == Operation::gather;
  return operation != Operation::send && (is_root || !to_root) &&
         !(is_root && operation == Operation::broadcast);
}
/// Whether the input and the output may be the same tensor.
constexpr bool is_in_place(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce;
}

/// The arguments that few operations have.
struct RareArguments {
  std::vector<std::int64_t> send_rows = {};     // all_to_all_uneven: number of rows sent to each place
  std::vector<std::int64_t> receive_rows = {};  // all_to_all_uneven: number of rows received from each place
  int color = 0, key = 0;                       // split
  std::string name = {};                        // new_group: the kind of the new group
  std::vector<int> members = {};                // new_group: global ranks
  Ratio factor = {};                            // of the input, before it is reduced
};

/// The rare arguments of a call, which copies of the call share. A call that has none costs no memory.
class Rare {
 public:
  Rare() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a Call is built from its arguments.
  Rare(RareArguments arguments) : arguments_(std::make_shared<const RareArguments>(std::move(arguments))) {}
  const RareArguments* operator->() const { return arguments_ == nullptr ? &none() : arguments_.get(); }

 private:
  static const RareArguments& none();
  std::shared_ptr<const RareArguments> arguments_;
};

/// What calls have to agree on, but for the rare arguments. Calls with equal keys agree; those with other
/// keys may agree too, where an operation does not use what differs.
struct CallKey {
  CallKey() = default;
  CallKey(Operation operation, DType dtype, ReduceOp reduce_op, int root_or_peer, std::int64_t elements)
      : kinds(static_cast<std::uint64_t>(operation) | static_cast<std::uint64_t>(dtype) << 8 |
              static_cast<std::uint64_t>(reduce_op) << 16 |
              static_cast<std::uint64_t>(static_cast<std::uint32_t>(root_or_peer)) << 32),
        count(elements) {}
  Operation operation() const { return static_cast<Operation>(kinds & 0xff); }
  /// A call whose input has a factor, which is compared in full.
  void add_factor() { kinds |= kFactor; }
  bool has_factor() const { return (kinds & kFactor) != 0; }
  bool operator==(const CallKey&) const = default;

  static constexpr std::uint64_t kFactor = 1 << 24;
  std::uint64_t kinds = 0;
  std::int64_t count = 0;
};

/// Whether a call has tensors of its own, or its caller lends them to it. A backend that makes blocking calls
/// while their caller waits, and keeps nothing of them, takes lent ones.
enum class CallTensors { own, lent };

/// A tensor of a call: its own, which copies of the call share, or one that its caller lends to it.
class CallTensor {
 public:
  CallTensor() = default;  // Tensor()
  explicit CallTensor(const Tensor& lent) : tensor_(&lent) {}
  /// Keeps a tensor as the call's own.
  CallTensor& operator=(const Tensor& tensor) {
    own_ = std::make_shared<const Tensor>(tensor);
    tensor_ = own_.get();
    return *this;
  }
  const Tensor& operator*() const { return *tensor_; }
  const Tensor* operator->() const { return tensor_; }
  // NOLINTNEXTLINE(google-explicit-constructor): it stands wherever a tensor stands.
  operator const Tensor&() const { return *tensor_; }

 private:
  static inline constinit const Tensor none_;
  const Tensor* tensor_ = &none_;
  std::shared_ptr<const Tensor> own_;  // null where the caller lends the tensor
};

struct Call {
  Call(Operation of_call, const Site& at) : operation(of_call), site(at) {}
  Call(Operation of_call, const Site& at, const Tensor& in, const Tensor& out, CallTensors tensors)
      : operation(of_call), site(at), input(in), output(out) {
    if (tensors == CallTensors::own) own_tensors();
  }
  Call(const Call&) = default;
  Call(Call&&) = default;
  Call& operator=(const Call&) = default;
  Call& operator=(Call&&) = default;
  /// It is inline, because most calls own nothing.
  [[gnu::always_inline]] ~Call() = default;

  Operation operation;
  Site site;
  CallTensor input;   // Tensor() if this rank has no input
  CallTensor output;  // Tensor() if this rank has no output; equal to input if the call works in place
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1;  // the root's place in the group
  int peer = -1;  // send and recv: the peer's place in the group
  Rare rare;
  std::int64_t count = 0;  // elements, as listed above
  DType dtype = DType::f64;
  bool continues_batch = false;  // the message is of one batch with the call before it
  CallKey key;                   // of a call that has been checked
  /// The number of this call, from 0: among the collectives of the group, or, for send and recv, among the
  /// messages from this sender to this receiver in the group.
  std::int64_t sequence = 0;

 private:
  /// Makes tensors that are lent the call's own.
  void own_tensors();
};

/// Returns the place of the root or of the peer; -1 if the operation has neither.
inline int root_or_peer_of(const Call& call) { return has_root(call.operation) ? call.root : call.peer; }

/// The record of a call, which outlives the call itself.
struct CallRecord {
  const ProcessGroup* group;
  Site site;
  std::int64_t sequence;
  std::int64_t count;         // elements
  std::int64_t bytes_inside;  // bytes sent to ranks of the same node (ring_traffic.h)
  std::int64_t bytes_across;  // bytes sent to ranks of other nodes
  int root_or_peer;           // place in the group, or -1 if the operation has neither
  Operation operation;
  DType dtype;
  ReduceOp reduce_op;
  bool waited;                   // whether the blocking call, or the wait() for a started one, has returned
  bool continues_batch = false;  // the message is of one batch with the call before it

  CallKey key() const { return {operation, dtype, reduce_op, root_or_peer, count}; }
};

}  // namespace sim
