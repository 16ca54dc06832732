#pragma once

/// The ways to reduce the values of members to one: sum, max, min, product, average.
///
/// Exact   average is the sum, divided at the end: one multiplication by 1/n, rounded once (in the field
///         the exact quotient; for i32 truncated towards zero). NCCL multiplies every input by 1/n first.
///         That gives the same bits if n is a power of two, and another result otherwise.
/// Source  NCCL 2.28.9, enqueue.cc, hostToDevRedOp.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sim {

enum class ReduceOp : std::uint8_t { sum, max, min, product, average };

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "max", "min", "product", "average"};
  return op <= ReduceOp::average ? kNames[static_cast<std::size_t>(op)] : "no reduction";
}

}  // namespace sim
