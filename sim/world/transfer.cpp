#include "sim/world/transfer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "sim/base/check.h"
#include "sim/comm/blocks.h"

namespace sim {

namespace {

/// The least number of bytes of a part. With fewer, another thread costs more than it saves.
constexpr std::int64_t kWorthAPart = std::int64_t{1} << 20;

using Calls = std::span<PostedCall* const>;

Reduction reduction_of(const Call& call) { return {call.reduce_op, call.rare->factor}; }

std::vector<FoldSegment> part_of(const std::vector<FoldSegment>& segments, std::int64_t count, int part,
                                 int parts) {
  const std::int64_t from = count * part / parts;
  const std::int64_t to = count * (part + 1) / parts;
  std::vector<FoldSegment> result;
  for (const FoldSegment& segment : segments) {
    const FoldSegment cut{std::max(segment.begin, from), std::min(segment.end, to), segment.first,
                          segment.shift};
    if (cut.begin < cut.end) result.push_back(cut);
  }
  return result;
}

/// Returns the inputs of the members in a base order (reduction_order.h). The list is valid until this thread
/// asks for another one, which uses the same memory.
TensorList inputs_of(Calls calls, const std::vector<int>& base) {
  thread_local std::vector<const Tensor*> inputs;
  inputs.resize(calls.size());
  if (base.empty()) {
    std::ranges::transform(calls, inputs.begin(), [](const PostedCall* call) { return &*call->call.input; });
  } else {
    for (std::size_t i = 0; i < calls.size(); ++i)
      inputs[i] = &*calls[static_cast<std::size_t>(base[i])]->call.input;
  }
  return inputs;
}

/// Folds one part of the members' inputs into `output`, or into all of them if it is null. `finisher` is the
/// place that gets the result.
void fold_members(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int finisher,
                  const Tensor* output, int part, int parts) {
  const Call& call = calls.front()->call;
  Device& device = call.input->device();
  const auto fold = [&](TensorList inputs, std::span<const FoldSegment> segments) {
    device.fold(reduction_of(call), inputs, segments, output == nullptr ? inputs : TensorList(&output, 1));
  };
  if (order.kind == ReductionOrderKind::rank_order && parts == 1) {  // the plan of most calls
    const std::array<FoldSegment, 1> whole = {{{0, call.count, 0}}};
    return fold(inputs_of(calls, {}), whole);
  }
  const FoldPlan plan = fold_plan(order, call, group, finisher);
  fold(inputs_of(calls, plan.base), part_of(plan.segments, call.count, part, parts));
}

void all_reduce(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int part, int parts) {
  // The call works in place, and the order of the outputs makes no difference.
  fold_members(calls, group, order, 0, nullptr, part, parts);
}

void reduce(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int part, int parts) {
  const int root = calls.front()->call.root;
  fold_members(calls, group, order, root, &*calls[static_cast<std::size_t>(root)]->call.output, part, parts);
}

/// Blocks of fewer bytes than this are folded or copied all at once and then distributed. A separate fold for
/// each block would read only a little of every input.
constexpr std::int64_t kSmallBlock = 4096;

bool is_small(Calls calls) {
  const Call& call = calls.front()->call;
  return call.count * size_of(call.dtype) < kSmallBlock;
}

/// Returns the segments of all blocks, as elements of the whole inputs. Adjacent segments that start at the
/// same member are merged.
std::vector<FoldSegment> segments_of_blocks(Calls calls, const ProcessGroup& group,
                                            const ReductionOrder& order) {
  const Call& call = calls.front()->call;
  std::vector<FoldSegment> all;
  for (std::size_t place = 0; place < calls.size(); ++place) {
    const std::int64_t begin = static_cast<std::int64_t>(place) * call.count;
    for (const FoldSegment& segment : fold_plan(order, call, group, static_cast<int>(place)).segments) {
      const FoldSegment moved{begin + segment.begin, begin + segment.end, segment.first};
      if (!all.empty() && all.back().end == moved.begin && all.back().first == moved.first) {
        all.back().end = moved.end;
      } else {
        all.push_back(moved);
      }
    }
  }
  return all;
}

/// Folds all blocks at once, and copies each to its place.
void reduce_scatter_small(Calls calls, const ProcessGroup& group, const ReductionOrder& order) {
  const Call& call = calls.front()->call;
  Device& device = call.input->device();
  const Tensor blocks = device.empty(call.dtype, {std::ssize(calls) * call.count});
  const Tensor* all = &blocks;
  device.fold(reduction_of(call), inputs_of(calls, fold_plan(order, call, group, 0).base),
              segments_of_blocks(calls, group, order), {&all, 1});
  for (std::size_t place = 0; place < calls.size(); ++place)
    copy_elements(block(blocks, call.count, static_cast<std::int64_t>(place)), calls[place]->call.output);
}

/// Folds block p of the inputs into the output of place p. The base order belongs to the call and is the
/// same for all blocks.
void reduce_scatter(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int part,
                    int parts) {
  if (parts == 1 && is_small(calls)) return reduce_scatter_small(calls, group, order);
  const Call& call = calls.front()->call;
  const TensorList inputs = inputs_of(calls, fold_plan(order, call, group, 0).base);
  for (std::size_t place = 0; place < calls.size(); ++place) {
    std::vector<FoldSegment> segments =
        part_of(fold_plan(order, call, group, static_cast<int>(place)).segments, call.count, part, parts);
    for (FoldSegment& segment : segments) segment.shift = static_cast<std::int64_t>(place) * call.count;
    const Tensor* output = &*calls[place]->call.output;
    call.input->device().fold(reduction_of(call), inputs, segments, {&output, 1});
  }
}

/// Builds the output of the first member block by block; the others copy it as a whole.
void all_gather_small(Calls calls) {
  const std::int64_t count = calls.front()->call.count;
  const Tensor whole = calls.front()->call.output->flat();
  for (std::size_t place = 0; place < calls.size(); ++place)
    copy_elements(calls[place]->call.input, block(whole, count, static_cast<std::int64_t>(place)));
  for (std::size_t place = 1; place < calls.size(); ++place) copy_elements(whole, calls[place]->call.output);
}

/// Reads each block once, and writes it to all outputs: a fold of one input is a copy. A block that works in
/// place is in its own output already.
void all_gather(Calls calls) {
  if (is_small(calls)) return all_gather_small(calls);
  const std::int64_t count = calls.front()->call.count;
  const FoldSegment whole{.begin = 0, .end = count};
  for (std::size_t place = 0; place < calls.size(); ++place) {
    const Tensor input = calls[place]->call.input->flat();
    std::vector<Tensor> outputs;
    outputs.reserve(calls.size());
    for (const PostedCall* member : calls) {
      const Tensor output = block(member->call.output, count, static_cast<std::int64_t>(place));
      if (!output.overlaps(input)) outputs.push_back(output);
    }
    const Tensor* const only = &input;
    if (!outputs.empty()) input.device().fold(ReduceOp::sum, {&only, 1}, {&whole, 1}, pointers_to(outputs));
  }
}

void broadcast(Calls calls) {
  const auto root = std::find_if(calls.begin(), calls.end(),
                                 [](const PostedCall* call) { return call->place == call->call.root; });
  for (const PostedCall* call : calls) {
    if (!call->call.output->is_none()) copy_elements((*root)->call.input, call->call.output);
  }
}

void gather(Calls calls) {
  const Call& root = calls[static_cast<std::size_t>(calls.front()->call.root)]->call;
  for (std::size_t place = 0; place < calls.size(); ++place)
    copy_elements(calls[place]->call.input, block(root.output, root.count, static_cast<std::int64_t>(place)));
}

void scatter(Calls calls) {
  const Call& root = calls[static_cast<std::size_t>(calls.front()->call.root)]->call;
  for (std::size_t place = 0; place < calls.size(); ++place)
    copy_elements(block(root.input, root.count, static_cast<std::int64_t>(place)), calls[place]->call.output);
}

void all_to_all(Calls calls) {
  const std::int64_t count = calls.front()->call.count;
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      const auto sender = static_cast<std::int64_t>(from);
      const auto receiver = static_cast<std::int64_t>(to);
      copy_elements(block(calls[from]->call.input, count, receiver),
                    block(calls[to]->call.output, count, sender));
    }
  }
}

void all_to_all_uneven(Calls calls) {
  // The number of rows that each place has received so far, from the places before `from`.
  std::vector<std::int64_t> received(calls.size(), 0);
  for (const PostedCall* from : calls) {
    std::int64_t sent = 0;
    for (std::size_t to = 0; to < calls.size(); ++to) {
      const std::int64_t rows = from->call.rare->send_rows[to];
      copy_elements(from->call.input->rows(sent, sent + rows),
                    calls[to]->call.output->rows(received[to], received[to] + rows));
      sent += rows;
      received[to] += rows;
    }
  }
}

/// Whether the call moves elements. Those of a device of shapes do not exist.
bool has_elements(const Call& call) {
  const Tensor& tensor = call.input->is_none() ? call.output : call.input;
  return tensor.is_none() || tensor.device().has_elements(call.dtype);
}

/// Moves the elements of a collective.
void move(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int part, int parts) {
  switch (calls.front()->call.operation) {
    case Operation::all_reduce:
      return all_reduce(calls, group, order, part, parts);
    case Operation::reduce_scatter:
      return reduce_scatter(calls, group, order, part, parts);
    case Operation::all_gather:
      return all_gather(calls);
    case Operation::broadcast:
      return broadcast(calls);
    case Operation::reduce:
      return reduce(calls, group, order, part, parts);
    case Operation::gather:
      return gather(calls);
    case Operation::scatter:
      return scatter(calls);
    case Operation::all_to_all:
      return all_to_all(calls);
    case Operation::all_to_all_uneven:
      return all_to_all_uneven(calls);
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
    case Operation::send:
    case Operation::recv:
      return;
  }
}

}  // namespace

int parts_of(Calls calls, int most) {
  const Call& call = calls.front()->call;
  if (!has_reduce_op(call.operation) || !has_elements(call)) return 1;
  const std::int64_t bytes = call.count * size_of(call.dtype) * static_cast<std::int64_t>(calls.size());
  return static_cast<int>(std::clamp<std::int64_t>(bytes / kWorthAPart, 1, most));
}

void transfer(Calls calls, const ProcessGroup& group, const ReductionOrder& order, int part, int parts) {
  SIM_CHECK(!is_point_to_point(calls.front()->call.operation));  // messages are matched in pairs
  if (has_elements(calls.front()->call)) move(calls, group, order, part, parts);
}

void transfer(const Call& send, const Call& receive) { copy_elements(send.input, receive.output); }

}  // namespace sim
