// The operations of Communicator, blocking and started. Each one builds its Call and passes it to run() or
// start().

#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/comm/call_checks.h"

namespace sim {

namespace {

/// The calls of the operations, with tensors that are the call's own or lent.
struct Calls {
  CallTensors tensors;

  [[gnu::always_inline]] Call reduction(Operation operation, const Tensor& input, const Tensor& output,
                                        ReduceOp op, const Site& site) const {
    Call call(operation, site, input, output, tensors);
    call.reduce_op = op;
    return call;
  }
  Call scaled(Operation operation, const Tensor& input, const Tensor& output, Reduction reduction,
              const Site& site) const {
    Call call = this->reduction(operation, input, output, reduction.op, site);
    if (reduction.factor != Ratio{}) call.rare = RareArguments{.factor = reduction.factor};
    return call;
  }
  [[gnu::always_inline]] Call exchange(Operation operation, const Tensor& input, const Tensor& output,
                                       const Site& site) const {
    return {operation, site, input, output, tensors};
  }
  [[gnu::always_inline]] Call rooted(Operation operation, const Tensor& input, const Tensor& output, int root,
                                     const Site& site) const {
    Call call(operation, site, input, output, tensors);
    call.root = root;
    return call;
  }
  [[gnu::always_inline]] Call reduce(const Tensor& inout, ReduceOp op, int root, const Site& site) const {
    Call call(Operation::reduce, site, inout, inout, tensors);
    call.reduce_op = op;
    call.root = root;
    return call;
  }
  Call uneven(const Tensor& input, std::vector<std::int64_t> send_rows, const Tensor& output,
              std::vector<std::int64_t> receive_rows, const Site& site) const {
    Call call(Operation::all_to_all_uneven, site, input, output, tensors);
    call.rare = RareArguments{.send_rows = std::move(send_rows), .receive_rows = std::move(receive_rows)};
    return call;
  }
  [[gnu::always_inline]] Call message(Operation operation, const Tensor& tensor, int peer,
                                      const Site& site) const {
    Call call(operation, site, tensor, tensor, tensors);
    call.peer = peer;
    return call;
  }
};

constexpr Calls kOwn = {CallTensors::own};

}  // namespace

void Communicator::all_reduce(const Tensor& inout, ReduceOp op, const Site& site) {
  constexpr Operation kThis = Operation::all_reduce;
  run(kThis, Calls{of_blocking_calls_}.reduction(kThis, inout, inout, op, site));
}
Work Communicator::start_all_reduce(const Tensor& inout, Reduction reduction, const Site& site) {
  return start(kOwn.scaled(Operation::all_reduce, inout, inout, reduction, site));
}

void Communicator::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, const Site& site) {
  constexpr Operation kThis = Operation::reduce_scatter;
  run(kThis, Calls{of_blocking_calls_}.reduction(kThis, input, output, op, site));
}
Work Communicator::start_reduce_scatter(const Tensor& input, const Tensor& output, Reduction reduction,
                                        const Site& site) {
  return start(kOwn.scaled(Operation::reduce_scatter, input, output, reduction, site));
}

void Communicator::all_gather(const Tensor& input, const Tensor& output, const Site& site) {
  constexpr Operation kThis = Operation::all_gather;
  run(kThis, Calls{of_blocking_calls_}.exchange(kThis, input, output, site));
}
Work Communicator::start_all_gather(const Tensor& input, const Tensor& output, const Site& site) {
  return start(kOwn.exchange(Operation::all_gather, input, output, site));
}

void Communicator::broadcast(const Tensor& inout, int root, const Site& site) {
  constexpr Operation kThis = Operation::broadcast;
  run(kThis, Calls{of_blocking_calls_}.rooted(kThis, inout, inout, root, site));
}
Work Communicator::start_broadcast(const Tensor& inout, int root, const Site& site) {
  return start(kOwn.rooted(Operation::broadcast, inout, inout, root, site));
}

void Communicator::reduce(const Tensor& inout, ReduceOp op, int root, const Site& site) {
  run(Operation::reduce, Calls{of_blocking_calls_}.reduce(inout, op, root, site));
}
Work Communicator::start_reduce(const Tensor& inout, ReduceOp op, int root, const Site& site) {
  return start(kOwn.reduce(inout, op, root, site));
}

void Communicator::gather(const Tensor& input, const Tensor& output_at_root, int root, const Site& site) {
  constexpr Operation kThis = Operation::gather;
  run(kThis, Calls{of_blocking_calls_}.rooted(kThis, input, output_at_root, root, site));
}
Work Communicator::start_gather(const Tensor& input, const Tensor& output_at_root, int root,
                                const Site& site) {
  return start(kOwn.rooted(Operation::gather, input, output_at_root, root, site));
}

void Communicator::scatter(const Tensor& input_at_root, const Tensor& output, int root, const Site& site) {
  constexpr Operation kThis = Operation::scatter;
  run(kThis, Calls{of_blocking_calls_}.rooted(kThis, input_at_root, output, root, site));
}
Work Communicator::start_scatter(const Tensor& input_at_root, const Tensor& output, int root,
                                 const Site& site) {
  return start(kOwn.rooted(Operation::scatter, input_at_root, output, root, site));
}

void Communicator::all_to_all(const Tensor& input, const Tensor& output, const Site& site) {
  constexpr Operation kThis = Operation::all_to_all;
  run(kThis, Calls{of_blocking_calls_}.exchange(kThis, input, output, site));
}
Work Communicator::start_all_to_all(const Tensor& input, const Tensor& output, const Site& site) {
  return start(kOwn.exchange(Operation::all_to_all, input, output, site));
}

void Communicator::all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                     const Tensor& output, std::vector<std::int64_t> receive_rows,
                                     const Site& site) {
  run(Operation::all_to_all_uneven,
      Calls{of_blocking_calls_}.uneven(input, std::move(send_rows), output, std::move(receive_rows), site));
}
Work Communicator::start_all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                           const Tensor& output, std::vector<std::int64_t> receive_rows,
                                           const Site& site) {
  return start(kOwn.uneven(input, std::move(send_rows), output, std::move(receive_rows), site));
}

void Communicator::send(const Tensor& tensor, int peer, const Site& site) {
  constexpr Operation kThis = Operation::send;
  run(kThis, Calls{of_blocking_calls_}.message(kThis, tensor, peer, site));
}
Work Communicator::start_send(const Tensor& tensor, int peer, const Site& site) {
  return start(kOwn.message(Operation::send, tensor, peer, site));
}

void Communicator::recv(const Tensor& tensor, int peer, const Site& site) {
  constexpr Operation kThis = Operation::recv;
  run(kThis, Calls{of_blocking_calls_}.message(kThis, tensor, peer, site));
}
Work Communicator::start_recv(const Tensor& tensor, int peer, const Site& site) {
  return start(kOwn.message(Operation::recv, tensor, peer, site));
}

Work Communicator::start_batch(std::span<const PointToPoint> calls, const Site& site, bool continues) {
  Work work;
  for (const PointToPoint& each : calls) {
    Call call = kOwn.message(each.operation, each.tensor, each.peer, site);
    if (!is_point_to_point(each.operation)) {
      refuse_call(call, "call_operation", "the operation is in a batch",
                  "a batch has sends and receives only", "a separate call");
    }
    call.continues_batch = continues || &each != &calls.front();
    start_into(work, std::move(call));
  }
  return work;
}
void Communicator::batch(std::span<const PointToPoint> calls, const Site& site) {
  start_batch(calls, site).wait();
}

void Communicator::barrier(const Site& site) { run(Operation::barrier, Call(Operation::barrier, site)); }
Work Communicator::start_barrier(const Site& site) { return start(Call(Operation::barrier, site)); }

std::unique_ptr<Communicator> Communicator::split(int color, int key, const Site& site) {
  Call call(Operation::split, site);
  call.rare = RareArguments{.color = color, .key = key};
  const std::size_t record = record_call(call);
  std::unique_ptr<Communicator> part = do_split(std::move(call));
  recorder_->set_waited(record);
  return part;
}

}  // namespace sim
