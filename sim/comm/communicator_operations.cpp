// The operations of Communicator, blocking and started. Each one builds its Call and passes it to run() or
// start().

#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/comm/communicator.h"

namespace sim {

namespace {

Call all_reduce_call(const Tensor& inout, ReduceOp op, Site site) {
  return {.operation = Operation::all_reduce, .site = site, .input = inout, .output = inout, .reduce_op = op};
}
Call reduce_scatter_call(const Tensor& input, const Tensor& output, ReduceOp op, Site site) {
  return {.operation = Operation::reduce_scatter,
          .site = site,
          .input = input,
          .output = output,
          .reduce_op = op};
}
Call all_gather_call(const Tensor& input, const Tensor& output, Site site) {
  return {.operation = Operation::all_gather, .site = site, .input = input, .output = output};
}
Call rooted_call(Operation operation, const Tensor& input, const Tensor& output, int root, Site site,
                 ReduceOp op = ReduceOp::sum) {
  return {
      .operation = operation, .site = site, .input = input, .output = output, .reduce_op = op, .root = root};
}
Call all_to_all_call(const Tensor& input, const Tensor& output, Site site) {
  return {.operation = Operation::all_to_all, .site = site, .input = input, .output = output};
}
Call uneven_call(const Tensor& input, std::vector<std::int64_t> send_rows, const Tensor& output,
                 std::vector<std::int64_t> receive_rows, Site site) {
  return {.operation = Operation::all_to_all_uneven,
          .site = site,
          .input = input,
          .output = output,
          .send_rows = std::move(send_rows),
          .receive_rows = std::move(receive_rows)};
}
Call point_to_point_call(Operation operation, const Tensor& tensor, int peer, Site site) {
  return {.operation = operation, .site = site, .input = tensor, .output = tensor, .peer = peer};
}
Call barrier_call(Site site) { return {.operation = Operation::barrier, .site = site}; }

}  // namespace

void Communicator::all_reduce(const Tensor& inout, ReduceOp op, Site site) {
  run(all_reduce_call(inout, op, site));
}
Work Communicator::start_all_reduce(const Tensor& inout, ReduceOp op, Site site) {
  return start(all_reduce_call(inout, op, site));
}

void Communicator::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, Site site) {
  run(reduce_scatter_call(input, output, op, site));
}
Work Communicator::start_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, Site site) {
  return start(reduce_scatter_call(input, output, op, site));
}

void Communicator::all_gather(const Tensor& input, const Tensor& output, Site site) {
  run(all_gather_call(input, output, site));
}
Work Communicator::start_all_gather(const Tensor& input, const Tensor& output, Site site) {
  return start(all_gather_call(input, output, site));
}

void Communicator::broadcast(const Tensor& inout, int root, Site site) {
  run(rooted_call(Operation::broadcast, inout, inout, root, site));
}
Work Communicator::start_broadcast(const Tensor& inout, int root, Site site) {
  return start(rooted_call(Operation::broadcast, inout, inout, root, site));
}

void Communicator::reduce(const Tensor& inout, ReduceOp op, int root, Site site) {
  run(rooted_call(Operation::reduce, inout, inout, root, site, op));
}
Work Communicator::start_reduce(const Tensor& inout, ReduceOp op, int root, Site site) {
  return start(rooted_call(Operation::reduce, inout, inout, root, site, op));
}

void Communicator::gather(const Tensor& input, const Tensor& output_at_root, int root, Site site) {
  run(rooted_call(Operation::gather, input, output_at_root, root, site));
}
Work Communicator::start_gather(const Tensor& input, const Tensor& output_at_root, int root, Site site) {
  return start(rooted_call(Operation::gather, input, output_at_root, root, site));
}

void Communicator::scatter(const Tensor& input_at_root, const Tensor& output, int root, Site site) {
  run(rooted_call(Operation::scatter, input_at_root, output, root, site));
}
Work Communicator::start_scatter(const Tensor& input_at_root, const Tensor& output, int root, Site site) {
  return start(rooted_call(Operation::scatter, input_at_root, output, root, site));
}

void Communicator::all_to_all(const Tensor& input, const Tensor& output, Site site) {
  run(all_to_all_call(input, output, site));
}
Work Communicator::start_all_to_all(const Tensor& input, const Tensor& output, Site site) {
  return start(all_to_all_call(input, output, site));
}

void Communicator::all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                     const Tensor& output, std::vector<std::int64_t> receive_rows,
                                     Site site) {
  run(uneven_call(input, std::move(send_rows), output, std::move(receive_rows), site));
}
Work Communicator::start_all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                           const Tensor& output, std::vector<std::int64_t> receive_rows,
                                           Site site) {
  return start(uneven_call(input, std::move(send_rows), output, std::move(receive_rows), site));
}

void Communicator::send(const Tensor& tensor, int peer, Site site) {
  run(point_to_point_call(Operation::send, tensor, peer, site));
}
Work Communicator::start_send(const Tensor& tensor, int peer, Site site) {
  return start(point_to_point_call(Operation::send, tensor, peer, site));
}

void Communicator::recv(const Tensor& tensor, int peer, Site site) {
  run(point_to_point_call(Operation::recv, tensor, peer, site));
}
Work Communicator::start_recv(const Tensor& tensor, int peer, Site site) {
  return start(point_to_point_call(Operation::recv, tensor, peer, site));
}

Work Communicator::start_batch(std::span<const PointToPoint> calls, Site site) {
  Work work;
  for (const PointToPoint& each : calls) {
    Call call = point_to_point_call(each.operation, each.tensor, each.peer, site);
    if (!is_point_to_point(each.operation)) {
      refuse_call(call, "call_operation", "the operation is in a batch",
                  "a batch has sends and receives only", "a separate call");
    }
    start_into(work, std::move(call));
  }
  return work;
}
void Communicator::batch(std::span<const PointToPoint> calls, Site site) { start_batch(calls, site).wait(); }

void Communicator::barrier(Site site) { run(barrier_call(site)); }
Work Communicator::start_barrier(Site site) { return start(barrier_call(site)); }

std::unique_ptr<Communicator> Communicator::split(int color, int key, Site site) {
  Call call{.operation = Operation::split, .site = site, .color = color, .key = key};
  const std::size_t record = record_call(call);
  std::unique_ptr<Communicator> part = do_split(std::move(call));
  recorder_->set_waited(record);
  return part;
}

}  // namespace sim
