#include "sim/mpi/letter_agreement.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

namespace {

constexpr const char* kSameCalls = "every member of a group makes the same calls in the same order";

std::string words(const Letter& letter, const std::string& what) {
  return fmt::format("rank {} has {} at '{}' ({}:{})", letter.key.from, what, letter.site, letter.file,
                     letter.line);
}

template <typename Value>
[[noreturn]] void differ(const char* code, const Letter& own, const Value& of_own, const Letter& other,
                         const Value& of_other, const char* rule, const char* hint) {
  refuse({.code = code,
          .option = fmt::format("call {} of {}", own.key.sequence, own.key.group),
          .numbers = words(own, fmt::format("{}", of_own)) + ", " + words(other, fmt::format("{}", of_other)),
          .rule = rule,
          .hint = hint});
}

bool makes_group(Operation operation) {
  return operation == Operation::split || operation == Operation::new_group;
}

std::string elements_text(const Letter& letter) { return fmt::format("{} elements", letter.count); }

std::string new_group_text(const Letter& letter) {
  return fmt::format("new_group '{}' of {}", letter.name, text_of_ranks(letter.members));
}

void require_message(const Letter& own, const Letter& other) {
  if (own.dtype != other.dtype) {
    differ("message_dtype_mismatch", own, name_of(own.dtype), other, name_of(other.dtype),
           "a send and its recv have the same dtype", "give the tensors of both sides the same dtype");
  }
  if (own.count != other.count) {
    differ("message_size_mismatch", own, elements_text(own), other, elements_text(other),
           "a send and its recv have the same number of elements",
           "give the tensors of both sides the same shape");
  }
}

}  // namespace

void require_agreement(const Letter& own, const Letter& other) {
  if (is_point_to_point(own.operation)) return require_message(own, other);
  if (own.operation != other.operation) {
    const bool of_groups = makes_group(own.operation) || makes_group(other.operation);
    differ(of_groups ? "group_not_created_by_all" : "collective_type_mismatch", own, name_of(own.operation),
           other, name_of(other.operation), kSameCalls,
           "look for an earlier call that some ranks skip or make twice");
  }
  if (own.name != other.name || own.members != other.members) {
    differ("group_order_mismatch", own, new_group_text(own), other, new_group_text(other),
           "every rank creates the same groups in the same order",
           "create all groups in one loop that is the same on every rank");
  }
  if (!moves_data(own.operation)) return;
  if (own.dtype != other.dtype) {
    differ("collective_dtype_mismatch", own, name_of(own.dtype), other, name_of(other.dtype),
           "all members call with the same dtype", "cast() before the call, on every rank");
  }
  if (own.operation != Operation::all_to_all_uneven && own.count != other.count) {
    differ("size_or_syntax_mismatch", own, elements_text(own), other, elements_text(other),
           "all members call with the same number of elements",
           "check the shape of the tensor on the rank that differs");
  }
  if (has_reduce_op(own.operation) && own.reduce_op != other.reduce_op) {
    differ("reduction_mismatch", own, name_of(own.reduce_op), other, name_of(other.reduce_op),
           "all members call with the same reduction", "pass the same ReduceOp on every rank");
  }
  if (own.root != other.root) {
    differ("root_mismatch", own, fmt::format("root {}", own.root), other, fmt::format("root {}", other.root),
           "all members call with the same root, which is a place in the group",
           "pass the place of the root in the group, not its global rank");
  }
}

}  // namespace sim
