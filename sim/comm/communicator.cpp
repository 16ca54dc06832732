#include "sim/comm/communicator.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/call_checks.h"
#include "sim/comm/refused_call.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

/// Does `refuse`, which throws, and adds the record of the call to what it throws.
template <typename Refuse>
[[noreturn]] void refuse_with_record(const Call& call, const ProcessGroup& group, std::int64_t sequence,
                                     const Refuse& refuse) {
  try {
    refuse();
  } catch (const Error& error) {
    throw RefusedCall(error.refusal(), {.group = &group,
                                        .site = call.site,
                                        .sequence = sequence,
                                        .count = call.count,
                                        .bytes_inside = 0,
                                        .bytes_across = 0,
                                        .root_or_peer = root_or_peer_of(call),
                                        .operation = call.operation,
                                        .dtype = call.dtype,
                                        .reduce_op = call.reduce_op,
                                        .waited = false});
  }
  SIM_CHECK(false);
}

}  // namespace

Communicator::Communicator(const ProcessGroup& group, int place, Device& device,
                           std::shared_ptr<Recorder> recorder, CallTensors of_blocking_calls)
    : group_(group),
      place_(place),
      device_(device),
      recorder_(std::move(recorder)),
      of_blocking_calls_(of_blocking_calls) {
  SIM_CHECK(place >= 0 && place < group.size());
}

std::string Communicator::describe(const Call& call) const {
  return fmt::format("{}, rank {}, {} {}", text_of(group_), global_rank(), name_of(call.operation),
                     text_of(call.site));
}

void Communicator::refuse_call(const Call& call, const char* code, std::string numbers, const char* rule,
                               const char* hint) const {
  refuse({.code = code, .option = describe(call), .numbers = std::move(numbers), .rule = rule, .hint = hint});
}

// ---- refusals ---------------------------------------------------------------------------------------------

/// The message does not describe the group, because the group no longer exists once its world is over.
void Communicator::refuse_caller(const Call& call) {
  refuse({.code = "wrong_rank",
          .option = fmt::format("{} {}", name_of(call.operation), text_of(call.site)),
          .numbers = "the communicator belongs to another rank, or to a world that is over",
          .rule = "a rank uses only its own communicators, and only while its program runs",
          .hint = "rank.groups of the rank that calls, not a communicator captured from outside"});
}

void Communicator::refuse_places(const Call& call) const {
  if (has_reduce_op(call.operation) && call.reduce_op > ReduceOp::average) {
    refuse_call(call, "call_operation", fmt::format("ReduceOp({})", static_cast<int>(call.reduce_op)),
                "a reduction is one of the named values of ReduceOp", "ReduceOp::sum");
  }
  Call counted = call;  // a count and a dtype have not been taken yet
  const Tensor& block = block_of(call.operation, call);
  if (!block.is_none()) {
    counted.count = block.count();
    counted.dtype = block.dtype();
  }
  refuse_with_record(counted, group_, has_root(call.operation) ? collectives_ : 0, [&] {
    if (has_root(call.operation)) {
      refuse_call(call, "call_root", fmt::format("root {} of {} members", call.root, size()),
                  "a root is a place in the group",
                  "a place from 0 to the group's size - 1, not a global rank");
    }
    refuse_call(
        call, "call_peer", fmt::format("peer {} of {} members, from place {}", call.peer, size(), place_),
        "a peer is another place in the group", "a place from 0 to the group's size - 1, not a global rank");
  });
}

void Communicator::refuse_dtypes(const Call& call) const {
  refuse_call(
      call, "dtype_mismatch",
      fmt::format("input {} and output {}", name_of(call.input->dtype()), name_of(call.output->dtype())),
      "both tensors have the same dtype", "cast() one of them");
}

void Communicator::refuse_overlap(const Call& call) const {
  Call counted = call;  // a count has not been taken yet
  counted.count = std::min(call.input->count(), call.output->count());
  if (call.operation == Operation::all_to_all) counted.count /= size();
  refuse_with_record(counted, group_, collectives_, [&] {
    refuse_call(call, "overlapping_buffers",
                fmt::format("input is bytes {} to {} and output bytes {} to {} of one buffer",
                            call.input->range().begin, call.input->range().end, call.output->range().begin,
                            call.output->range().end),
                "the input and the output of a call do not overlap", "another buffer for the output");
  });
}

void Communicator::refuse_blocks(const Call& call) const {
  refuse_with_record(call, group_, collectives_, [&] {
    if (call.operation == Operation::all_to_all) {
      refuse_call(call, "call_shape",
                  fmt::format("input of {} elements, output of {}, {} members", call.input->count(),
                              call.output->count(), size()),
                  "input and output have one block of the same size for each member",
                  "all_to_all_uneven takes blocks of different sizes");
    }
    const Tensor& whole = whole_of(call.operation, call);
    refuse_call(call, "call_shape",
                fmt::format("a block of {} elements and a whole of {}, {} members", call.count, whole.count(),
                            size()),
                "the whole has one block for each member",
                "a whole of as many elements as the block times the members");
  });
}

// ---- checks that few calls need ---------------------------------------------------------------------------

void Communicator::require_usable_tensor(const Call& call, const Tensor& tensor, Access access) const {
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
    refuse_with_record(call, group_, collectives_, [&] {
      refuse_call(call, "split_rows",
                  fmt::format("{} [{}] for a tensor {} and {} members", what, fmt::join(rows, ", "),
                              text_of(tensor.shape()), n),
                  "each member has a number of rows, none negative, and they add up to the first dimension",
                  "numbers of rows that cover the tensor");
    });
  };
  check("send_rows", call.rare->send_rows, call.input);
  check("receive_rows", call.rare->receive_rows, call.output);
  if (call.input->shape().row_count() == call.output->shape().row_count()) return;
  refuse_call(
      call, "call_shape",
      fmt::format("input {} and output {}", text_of(call.input->shape()), text_of(call.output->shape())),
      "rows of input and output have the same number of elements", "reshaped() of one of them");
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

// ---- starting and running ---------------------------------------------------------------------------------

void Communicator::do_blocking_call(Call& call) { do_call(std::move(call))->wait(); }

std::size_t Communicator::record_call(Call& call) {
  check_call(call.operation, call);
  return recorder_->add(call, group_, place_);
}

/// Copies the input to the output, which is what every operation does in a group of one member.
void Communicator::copy_as_identity(const Call& call) const {
  if (call.input->is_none() || call.output->is_none() || call.input->overlaps(call.output)) return;
  Tensor to = call.output;
  device_.copy(call.input, to);
}

/// Requires a factor that the dtype can hold, and an input that may be multiplied.
void Communicator::require_factor(const Call& call) const {
  const std::string user = describe(call);
  require_usable(call.input, device_, user.c_str());
  require_ratio(call.input->dtype(), call.rare->factor, user.c_str());
  require_write(call.input, user.c_str());
}

/// Multiplies the input by its factor in place, unless the backend multiplies it.
void Communicator::scale_input(Call& call) const {
  if (size() > 1 && scales_inputs()) return call.key.add_factor();
  Tensor input = call.input;
  device_.scale(input, call.rare->factor, input);
  call.rare = Rare();
}

void Communicator::start_into(Work& work, Call&& call) {
  if (call.rare->factor != Ratio{}) require_factor(call);
  const std::size_t record = record_call(call);
  recorder_->set_started();
  Work::Started started{nullptr, recorder_, record, call.input, call.output};
  const Site site = call.site;
  if (call.rare->factor != Ratio{}) scale_input(call);
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
