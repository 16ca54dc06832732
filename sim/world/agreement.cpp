#include "sim/world/agreement.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

#include "sim/comm/process_group.h"
#include "sim/world/finding.h"
#include "sim/world/group_state.h"

namespace sim {

namespace {

constexpr const char* kSameCalls = "every member of a group makes the same calls in the same order";

/// Returns "rank 3 has 8, rank 0 has 4".
template <typename Value>
std::string both(const PostedCall& first, const Value& of_first, const PostedCall& other,
                 const Value& of_other) {
  const ProcessGroup& group = first.group_state.group;
  return fmt::format("rank {} has {}, rank {} has {}", group.rank_at(first.place), of_first,
                     group.rank_at(other.place), of_other);
}

std::string factor_of(const Call& call) {
  return fmt::format("the factor {}/{}", call.rare->factor.numerator, call.rare->factor.denominator);
}

bool makes_group(Operation operation) {
  return operation == Operation::split || operation == Operation::new_group;
}

/// Whether two calls agree in everything that compare() looks at. This is the usual case, and it builds no
/// texts.
bool agree(const PostedCall& a, const PostedCall& b) {
  return a.call.key == b.call.key && a.call.rare->members == b.call.rare->members &&
         a.call.rare->name == b.call.rare->name && a.call.rare->factor == b.call.rare->factor;
}

/// How two calls of different operations disagree. `where` begins the text.
Disagreement other_operation(const PostedCall& first, const PostedCall& other, const std::string& where) {
  const Operation a = first.call.operation, b = other.call.operation;
  const bool group_call = makes_group(a) || makes_group(b);
  return {group_call ? "group_not_created_by_all" : "collective_type_mismatch",
          where + both(first, name_of(a), other, name_of(b)),
          group_call ? "every rank makes the same new_group and split calls, member or not" : kSameCalls,
          "look for an earlier call that some ranks skip or make twice"};
}

std::optional<Disagreement> compare(const PostedCall& first, const PostedCall& other) {
  const Call& a = first.call;
  const Call& b = other.call;
  const std::string where =
      fmt::format("members of {} disagree at call {}: ", first.group_state.group.kind, a.sequence);
  if (a.operation != b.operation) return other_operation(first, other, where);
  if (a.operation == Operation::new_group &&
      (a.rare->members != b.rare->members || a.rare->name != b.rare->name)) {
    return Disagreement{
        "group_order_mismatch",
        where + both(first, fmt::format("new_group '{}' of {}", a.rare->name, text_of_ranks(a.rare->members)),
                     other, fmt::format("'{}' of {}", b.rare->name, text_of_ranks(b.rare->members))),
        "every rank creates the same groups in the same order",
        "create all groups in one loop that is the same on every rank"};
  }
  if (moves_data(a.operation) && a.dtype != b.dtype) {
    return Disagreement{"collective_dtype_mismatch",
                        where + both(first, name_of(a.dtype), other, name_of(b.dtype)),
                        "all members call with the same dtype", "cast() before the call, on every rank"};
  }
  if (a.operation != Operation::all_to_all_uneven && a.count != b.count) {
    return Disagreement{
        "size_or_syntax_mismatch",
        where + both(first, fmt::format("{} elements", a.count), other, fmt::format("{}", b.count)),
        "all members call with the same number of elements",
        "check the shape of the tensor on the rank that differs"};
  }
  if (has_reduce_op(a.operation) && a.reduce_op != b.reduce_op) {
    return Disagreement{"reduction_mismatch",
                        where + both(first, name_of(a.reduce_op), other, name_of(b.reduce_op)),
                        "all members call with the same reduction", "pass the same ReduceOp on every rank"};
  }
  if (a.rare->factor != b.rare->factor) {
    return Disagreement{"reduction_mismatch", where + both(first, factor_of(a), other, factor_of(b)),
                        "all members multiply their inputs by the same factor",
                        "pass the same Reduction on every rank"};
  }
  if (has_root(a.operation) && a.root != b.root) {
    return Disagreement{
        "root_mismatch",
        where + both(first, fmt::format("root {}", a.root), other, fmt::format("root {}", b.root)),
        "all members call with the same root, which is a place in the group",
        "pass the place of the root in the group, not its global rank"};
  }
  return std::nullopt;
}

/// Checks for each pair of members that the rows one sends are as many as the other expects.
std::optional<Disagreement> compare_rows(std::span<PostedCall* const> calls) {
  for (const PostedCall* sender : calls) {
    for (const PostedCall* receiver : calls) {
      const std::int64_t sent = sender->call.rare->send_rows[static_cast<std::size_t>(receiver->place)];
      const std::int64_t expected =
          receiver->call.rare->receive_rows[static_cast<std::size_t>(sender->place)];
      if (sent == expected) continue;
      const ProcessGroup& group = sender->group_state.group;
      return Disagreement{
          "split_size_mismatch",
          fmt::format("rank {} sends {} rows to rank {}, which expects {}", group.rank_at(sender->place),
                      sent, group.rank_at(receiver->place), expected),
          "a member expects as many rows from another as that member sends",
          "exchange the split sizes with all_to_all first"};
    }
  }
  return std::nullopt;
}

int rank_of(const PostedCall& call) { return call.group_state.group.rank_at(call.place); }

/// Whether a rank makes a group of itself while the others make one without it.
bool may_stand_apart(const PostedCall& call, const PostedCall& shared) {
  if (!makes_own_group(call) || shared.call.operation != Operation::new_group) return false;
  return std::ranges::find(shared.call.rare->members, rank_of(call)) == shared.call.rare->members.end();
}

}  // namespace

bool makes_own_group(const PostedCall& call) {
  return call.call.operation == Operation::new_group && call.call.rare->members.size() == 1 &&
         call.call.rare->members.front() == rank_of(call);
}

const PostedCall& shared_call(std::span<PostedCall* const> calls) {
  const auto found = std::ranges::find_if_not(calls, [](const auto* call) { return makes_own_group(*call); });
  return found == calls.end() ? *calls.front() : **found;
}

std::optional<Disagreement> disagreement(std::span<PostedCall* const> calls) {
  const PostedCall& first = shared_call(calls);
  for (const PostedCall* other : calls) {
    if (other == &first || agree(first, *other) || may_stand_apart(*other, first)) continue;
    if (auto difference = compare(first, *other)) return difference;
  }
  if (first.call.operation == Operation::all_to_all_uneven) return compare_rows(calls);
  return std::nullopt;
}

std::optional<Disagreement> disagreement(const Call& send, const Call& receive) {
  if (send.dtype != receive.dtype) {
    return Disagreement{
        "message_dtype_mismatch",
        fmt::format("the send has {}, but its recv has {}", name_of(send.dtype), name_of(receive.dtype)),
        "a send and its recv have the same dtype", "give the tensors of both sides the same dtype"};
  }
  if (send.count != receive.count) {
    return Disagreement{
        "message_size_mismatch",
        fmt::format("the send has {} elements, but its recv has {}", send.count, receive.count),
        "a send and its recv have the same number of elements",
        "give the tensors of both sides the same shape"};
  }
  return std::nullopt;
}

}  // namespace sim
