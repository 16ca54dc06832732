#include "sim/mpi/exchange.h"

#include <cstddef>
#include <fmt/format.h>
#include <numeric>
#include <span>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/blocks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

/// Returns the rows of a tensor that go to `place`, or that come from it.
Tensor rows_of(const Tensor& tensor, const std::vector<std::int64_t>& rows, int place) {
  const auto end = rows.begin() + place;
  const std::int64_t before = std::accumulate(rows.begin(), end, std::int64_t{0});
  return tensor.rows(before, before + *end);
}

Bytes bytes_of(const Tensor& tensor) {
  Bytes bytes(static_cast<std::size_t>(tensor.bytes()));
  if (!bytes.empty()) tensor.device().to_host(tensor, bytes);
  return bytes;
}

void write(const Bytes& payload, Tensor to) {
  CHECK(static_cast<std::int64_t>(payload.size()) == to.bytes());
  if (!payload.empty()) to.device().from_host(payload, to);
}

/// Copies the part of this rank's input that goes to its own output.
void keep_own(const Call& call, int place) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::gather:
      return copy_elements(call.input, block(call.output, call.count, place));
    case Operation::scatter:
      return copy_elements(block(call.input, call.count, place), call.output);
    case Operation::all_to_all:
      return copy_elements(block(call.input, call.count, place), block(call.output, call.count, place));
    case Operation::all_to_all_uneven:
      return copy_elements(rows_of(call.input, call.rare->send_rows, place),
                           rows_of(call.output, call.rare->receive_rows, place));
    default:
      return;
  }
}

/// Folds the members' inputs into the output. `own` is the part of this rank's input that is folded.
void fold_members(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
                  const std::vector<Letter>& letters, int finisher, const Tensor& own) {
  Device& device = call.input->device();
  std::vector<Tensor> by_place(letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (static_cast<int>(i) == place) {
      by_place[i] = own;
      continue;
    }
    by_place[i] = device.empty(call.dtype, {own.count()});
    write(letters[i].payload, by_place[i]);
  }
  const FoldPlan plan = fold_plan(order, call, group, finisher);
  std::vector<Tensor> inputs = by_place;
  for (std::size_t i = 0; i < plan.base.size(); ++i)
    inputs[i] = by_place[static_cast<std::size_t>(plan.base[i])];
  if (own.count() > 0)
    device.fold(call.reduce_op, pointers_to(inputs), plan.segments, pointers_to({&*call.output, 1}));
}

void require_rows(const Call& call, const ProcessGroup& group, int place, int from, const Bytes& payload) {
  const std::int64_t row_bytes = call.output->shape().row_count() * size_of(call.dtype);
  const std::int64_t expected = call.rare->receive_rows[static_cast<std::size_t>(from)] * row_bytes;
  if (std::ssize(payload) == expected) return;
  refuse({.code = "split_size_mismatch",
          .option = fmt::format("{} in {}", text_of(call.site), text_of(group)),
          .numbers = fmt::format("rank {} sends {} bytes to rank {}, which expects {}", group.rank_at(from),
                                 payload.size(), group.rank_at(place), expected),
          .rule = "a member expects as many rows from another as that member sends",
          .hint = "exchange the split sizes with all_to_all first"});
}

/// Writes what one other member sent to its place in the output, if this operation has one.
void take_from(const Call& call, const ProcessGroup& group, int place, int from, const Bytes& payload) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::all_to_all:
      return write(payload, block(call.output, call.count, from));
    case Operation::gather:
      return place == call.root ? write(payload, block(call.output, call.count, from)) : void();
    case Operation::broadcast:
    case Operation::scatter:
      return from == call.root ? write(payload, call.output) : void();
    case Operation::all_to_all_uneven:
      require_rows(call, group, place, from, payload);
      return write(payload, rows_of(call.output, call.rare->receive_rows, from));
    case Operation::recv:
      return write(payload, call.output);
    default:
      return;
  }
}

/// Returns what a member that has an input sends to the one at `to`.
Bytes given_to(const Call& call, int to) {
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::all_gather:
    case Operation::send:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
      return bytes_of(call.input);
    case Operation::scatter:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return bytes_of(block(call.input, call.count, to));
    case Operation::all_to_all_uneven:
      return bytes_of(rows_of(call.input, call.rare->send_rows, to));
    case Operation::recv:
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
      break;
  }
  return {};
}

}  // namespace

Bytes payload_for(const Call& call, int members, int place, int to) {
  CHECK(to != place && to < members);
  const bool goes_to_root = call.operation == Operation::reduce || call.operation == Operation::gather;
  if (!gives(call.operation, place == call.root) || (goes_to_root && to != call.root)) return {};
  return given_to(call, to);
}

void take_in(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
             const std::vector<Letter>& letters) {
  switch (call.operation) {
    case Operation::all_reduce:
      return fold_members(call, group, place, order, letters, 0, call.input->flat());
    case Operation::reduce:
      if (place == call.root) fold_members(call, group, place, order, letters, call.root, call.input->flat());
      return;
    case Operation::reduce_scatter:
      return fold_members(call, group, place, order, letters, place, block(call.input, call.count, place));
    default:
      break;
  }
  const bool is_root = has_root(call.operation) && place == call.root;
  if (gives(call.operation, is_root) && gets(call.operation, is_root)) keep_own(call, place);
  for (int from = 0; from < group.size(); ++from) {
    const bool is_asked = call.operation != Operation::recv || from == call.peer;
    if (from != place && is_asked && gets(call.operation, is_root))
      take_from(call, group, place, from, letters[static_cast<std::size_t>(from)].payload);
  }
}

}  // namespace sim
