#include "sim/comm/communicator.h"

#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/ring_traffic.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

std::int64_t count_or_zero(const Tensor& tensor) { return tensor.is_none() ? 0 : tensor.count(); }

/// For an operation with one block on one side and n blocks on the other, returns the tensor that is the
/// single block. Its count is the count of the call.
const Tensor& block_of(const Call& call) {
  const bool output_is_block =
      call.operation == Operation::reduce_scatter || call.operation == Operation::scatter;
  return output_is_block ? call.output : call.input;
}

}  // namespace

Communicator::Communicator(const ProcessGroup& group, int place, Device& device,
                           std::shared_ptr<Recorder> recorder)
    : group_(group), place_(place), device_(device), recorder_(std::move(recorder)) {
  CHECK(place >= 0 && place < group.size());
}

std::string Communicator::describe(const Call& call) const {
  return fmt::format("{}, rank {}, {} {}", text_of(group_), global_rank(), name_of(call.operation),
                     text_of(call.site));
}

void Communicator::refuse_call(const Call& call, const char* code, std::string numbers, const char* rule,
                               const char* hint) const {
  refuse({.code = code, .option = describe(call), .numbers = std::move(numbers), .rule = rule, .hint = hint});
}

// ---- checks -----------------------------------------------------------------------------------------------

/// The message does not describe the group, because the group no longer exists once its world is over.
void Communicator::require_caller(const Call& call) const {
  if (running_device() == &device_) return;
  refuse({.code = "wrong_rank",
          .option = fmt::format("{} {}", name_of(call.operation), text_of(call.site)),
          .numbers = "the communicator belongs to another rank, or to a world that is over",
          .rule = "a rank uses only its own communicators, and only while its program runs",
          .hint = "rank.groups of the rank that calls, not a communicator captured from outside"});
}

void Communicator::require_tensor(const Call& call, const Tensor& tensor, Access access) const {
  if (tensor.is_none() || &tensor.device() != &device_)
    require_usable(tensor, device_, describe(call).c_str());
  if (tensor.storage().is_free(tensor.range(), access)) return;
  tensor.storage().require_access(tensor.range(), access, describe(call).c_str());
}

void Communicator::require_uneven(const Call& call) const {
  const auto n = static_cast<std::size_t>(size());
  const auto check = [&](const char* what, const std::vector<std::int64_t>& rows, const Tensor& tensor) {
    std::int64_t left = tensor.shape().dimensions() > 0 ? tensor.shape()[0] : -1;
    bool fits = rows.size() == n;
    for (const std::int64_t row : rows) {
      fits = fits && row >= 0 && row <= left;
      if (fits) left -= row;
    }
    if (fits && left == 0) return;
    refuse_call(call, "split_rows",
                fmt::format("{} [{}] for a tensor {} and {} members", what, fmt::join(rows, ", "),
                            text_of(tensor.shape()), n),
                "each member has a number of rows, none negative, and they add up to the first dimension",
                "numbers of rows that cover the tensor");
  };
  check("send_rows", call.send_rows, call.input);
  check("receive_rows", call.receive_rows, call.output);
  if (call.input.shape().row_count() == call.output.shape().row_count()) return;
  refuse_call(
      call, "call_shape",
      fmt::format("input {} and output {}", text_of(call.input.shape()), text_of(call.output.shape())),
      "rows of input and output have the same number of elements", "reshaped() of one of them");
}

void Communicator::require_counts(Call& call) const {
  const std::int64_t n = size();
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send:
    case Operation::recv:
      call.count = call.input.is_none() ? call.output.count() : call.input.count();
      return;
    case Operation::all_to_all_uneven:
      call.count = call.input.count();
      return require_uneven(call);
    case Operation::all_to_all:
      call.count = call.input.count() / n;
      if (call.count * n == call.input.count() && call.input.count() == call.output.count()) return;
      return refuse_call(call, "call_shape",
                         fmt::format("input of {} elements, output of {}, {} members", call.input.count(),
                                     call.output.count(), n),
                         "input and output have one block of the same size for each member",
                         "all_to_all_uneven takes blocks of different sizes");
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter: {
      call.count = count_or_zero(block_of(call));
      const Tensor& whole = &block_of(call) == &call.input ? call.output : call.input;
      if (whole.is_none() || whole.count() == n * call.count) return;
      return refuse_call(
          call, "call_shape",
          fmt::format("a block of {} elements and a whole of {}, {} members", call.count, whole.count(), n),
          "the whole has one block for each member",
          "a whole of as many elements as the block times the members");
    }
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
      return;
  }
}

std::int64_t Communicator::next_sequence(const Call& call) {
  if (!is_point_to_point(call.operation)) return collectives_++;
  return (call.operation == Operation::send ? sent_ : received_)[call.peer]++;
}

void Communicator::require_places(const Call& call) const {
  if (has_reduce_op(call.operation) && call.reduce_op > ReduceOp::average) {
    refuse_call(call, "call_operation", fmt::format("ReduceOp({})", static_cast<int>(call.reduce_op)),
                "a reduction is one of the named values of ReduceOp", "ReduceOp::sum");
  }
  if (has_root(call.operation) && (call.root < 0 || call.root >= size())) {
    refuse_call(call, "call_root", fmt::format("root {} of {} members", call.root, size()),
                "a root is a place in the group",
                "a place from 0 to the group's size - 1, not a global rank");
  }
  if (is_point_to_point(call.operation) && (call.peer < 0 || call.peer >= size() || call.peer == place_)) {
    refuse_call(
        call, "call_peer", fmt::format("peer {} of {} members, from place {}", call.peer, size(), place_),
        "a peer is another place in the group", "a place from 0 to the group's size - 1, not a global rank");
  }
}

/// Whether the call works in place on this member's own block: the output of a reduce_scatter may be this
/// member's block of the input, and the input of an all_gather may be this member's block of the output.
bool Communicator::is_own_block(const Call& call) const {
  const bool scatters = call.operation == Operation::reduce_scatter;
  if (!scatters && call.operation != Operation::all_gather) return false;
  const Tensor& whole = scatters ? call.input : call.output;
  const Tensor& block = scatters ? call.output : call.input;
  const std::int64_t begin = whole.range().begin + place_ * block.bytes();
  return block.range().begin == begin && whole.bytes() == size() * block.bytes();
}

/// Replaces the tensors that this member neither reads nor writes by Tensor(), and checks the others.
void Communicator::require_tensors(Call& call) const {
  const bool is_root = has_root(call.operation) && place_ == call.root;
  const bool has_input = gives(call.operation, is_root);
  const bool has_output = gets(call.operation, is_root);
  if (!has_input) call.input = Tensor();
  if (!has_output) call.output = Tensor();
  if (has_input) require_tensor(call, call.input, Access::read);
  if (has_output) require_tensor(call, call.output, Access::write);
  call.dtype = has_input ? call.input.dtype() : call.output.dtype();
  if (!has_input || !has_output) return;
  if (call.input.dtype() != call.output.dtype()) {
    refuse_call(
        call, "dtype_mismatch",
        fmt::format("input {} and output {}", name_of(call.input.dtype()), name_of(call.output.dtype())),
        "both tensors have the same dtype", "cast() one of them");
  }
  if (is_in_place(call.operation) || !call.input.overlaps(call.output)) return;
  if (is_own_block(call)) return;
  refuse_call(
      call, "overlapping_buffers",
      fmt::format("input is bytes {} to {} and output bytes {} to {} of one buffer", call.input.range().begin,
                  call.input.range().end, call.output.range().begin, call.output.range().end),
      "the input and the output of a call do not overlap", "another buffer for the output");
}

std::size_t Communicator::record_call(Call& call) {
  require_caller(call);
  require_places(call);
  if (moves_data(call.operation)) {
    require_tensors(call);
    require_counts(call);
  }
  call.sequence = next_sequence(call);
  const Traffic traffic = size() == 1 ? Traffic() : traffic_of(call, group_, place_);
  return recorder_->add({&group_, call.site, call.sequence, call.count, traffic.bytes_inside,
                         traffic.bytes_across, has_root(call.operation) ? call.root : call.peer,
                         call.operation, call.dtype, call.reduce_op, false});
}

// ---- starting and running ---------------------------------------------------------------------------------

/// Copies the input to the output, which is what every operation does in a group of one member.
void Communicator::copy_as_identity(const Call& call) const {
  if (call.input.is_none() || call.output.is_none() || call.input.overlaps(call.output)) return;
  Tensor to = call.output;
  device_.copy(call.input, to);
}

void Communicator::run(Call&& call) {
  const std::size_t record = record_call(call);
  if (size() == 1) {
    copy_as_identity(call);
  } else {
    do_blocking_call(call);
  }
  recorder_->set_waited(record);
}

void Communicator::start_into(Work& work, Call&& call) {
  const std::size_t record = record_call(call);
  recorder_->set_started();
  Work::Started started{nullptr, recorder_, record, call.input, call.output};
  const Site site = call.site;
  if (size() == 1) {
    copy_as_identity(call);
  } else {
    started.pending = do_call(std::move(call));
  }
  take_off(started.input, started.output, site);
  work.started_.push_back(std::move(started));
}

Work Communicator::start(Call&& call) {
  Work work;
  start_into(work, std::move(call));
  return work;
}

}  // namespace sim
