#include "gpu/nccl/nccl_steps.h"

#include <cstddef>

#include "sim/base/check.h"

namespace gpu {

namespace {

using sim::Call;
using sim::Operation;
using Steps = std::vector<NcclStep>;

NcclSpot input(std::int64_t offset = 0) { return {NcclBuffer::input, offset}; }
NcclSpot output(std::int64_t offset = 0) { return {NcclBuffer::output, offset}; }
NcclSpot none() { return {}; }
NcclSpot input_if(bool has_one) { return has_one ? input() : none(); }
NcclSpot output_if(bool has_one) { return has_one ? output() : none(); }
/// The root of a broadcast writes its own input again.
NcclSpot broadcast_to(bool is_root) { return is_root ? input() : output(); }

/// Returns the single step of a call that NCCL has as a collective, or no step if the call has no elements.
Steps whole(NcclOperation operation, const Call& call, NcclSpot from, NcclSpot to) {
  if (call.count == 0) return {};
  return {{operation, from, to, call.count, call.root}};
}

/// The elements that are sent to, or received from, one member.
struct Block {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Returns the sends and receives of blocks given to each member and got from each. An empty vector means
/// that nothing is exchanged in that direction.
Steps exchanged(const std::vector<Block>& given, const std::vector<Block>& got, int members, int place) {
  Steps steps;
  for (int peer = 0; peer < members; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const Block out = given.empty() ? Block() : given[at];
    const Block in = got.empty() ? Block() : got[at];
    if (peer == place) {
      if (out.count > 0 && in.count > 0)
        steps.push_back({NcclOperation::copy, input(out.offset), output(in.offset), out.count});
      continue;
    }
    if (out.count > 0) steps.push_back({NcclOperation::send, input(out.offset), none(), out.count, peer});
    if (in.count > 0) steps.push_back({NcclOperation::recv, none(), output(in.offset), in.count, peer});
  }
  return steps;
}

std::vector<Block> even(std::int64_t count, int members) {
  std::vector<Block> blocks;
  for (int peer = 0; peer < members; ++peer) blocks.push_back({peer * count, count});
  return blocks;
}

std::vector<Block> uneven(const std::vector<std::int64_t>& rows, std::int64_t row_count) {
  std::vector<Block> blocks;
  std::int64_t offset = 0;
  for (const std::int64_t of_peer : rows) {
    blocks.push_back({offset, of_peer * row_count});
    offset += of_peer * row_count;
  }
  return blocks;
}

std::vector<Block> even_if(bool are_exchanged, std::int64_t count, int members) {
  return are_exchanged ? even(count, members) : std::vector<Block>();
}

/// Returns blocks of which only that of `peer` has elements.
std::vector<Block> only(std::int64_t count, int members, int peer) {
  std::vector<Block> blocks(static_cast<std::size_t>(members));
  blocks[static_cast<std::size_t>(peer)] = {0, count};
  return blocks;
}

}  // namespace

Steps nccl_steps(const Call& call, int members, int place) {
  const bool is_root = place == call.root;
  switch (call.operation) {
    case Operation::all_reduce:
      return whole(NcclOperation::all_reduce, call, input(), output());
    case Operation::reduce_scatter:
      return whole(NcclOperation::reduce_scatter, call, input(), output());
    case Operation::all_gather:
      return whole(NcclOperation::all_gather, call, input(), output());
    case Operation::broadcast:
      return whole(NcclOperation::broadcast, call, input_if(is_root), broadcast_to(is_root));
    case Operation::reduce:
      return whole(NcclOperation::reduce, call, input(), output_if(is_root));
    case Operation::gather:
      return exchanged(only(call.count, members, call.root), even_if(is_root, call.count, members), members,
                       place);
    case Operation::scatter:
      return exchanged(even_if(is_root, call.count, members), only(call.count, members, call.root), members,
                       place);
    case Operation::all_to_all:
      return exchanged(even(call.count, members), even(call.count, members), members, place);
    case Operation::all_to_all_uneven:
      return exchanged(uneven(call.rare->send_rows, call.input->shape().row_count()),
                       uneven(call.rare->receive_rows, call.output->shape().row_count()), members, place);
    case Operation::send:
      return exchanged(only(call.count, members, call.peer), {}, members, place);
    case Operation::recv:
      return exchanged({}, only(call.count, members, call.peer), members, place);
    case Operation::barrier:
      return {{NcclOperation::all_reduce, input(), output(), 1}};
    case Operation::split:
    case Operation::new_group:
      break;
  }
  SIM_CHECK(false);  // groups are made otherwise
  return {};
}

}  // namespace gpu
