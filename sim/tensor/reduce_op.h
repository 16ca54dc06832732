#pragma once

/// The ways to reduce the values of members to one: sum, max, min, product, average. Values may be multiplied
/// by a factor before.
///
/// Exact   average is the sum, divided at the end: one multiplication by 1/n, rounded once (in the field
///         the exact quotient; for i32 truncated towards zero). NCCL multiplies every input by 1/n first.
///         That gives the same bits if n is a power of two, and another result otherwise.
/// Source  NCCL 2.28.9, enqueue.cc, hostToDevRedOp.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/tensor/kernel_parameters.h"

namespace sim {

enum class ReduceOp : std::uint8_t { sum, max, min, product, average };

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "max", "min", "product", "average"};
  return op <= ReduceOp::average ? kNames[static_cast<std::size_t>(op)] : "no reduction";
}

/// A reduction of values that are multiplied first, each by the same factor and as scale() in device.h does
/// it. NCCL calls such a sum one with a multiplier before it (ncclRedOpCreatePreMulSum).
struct Reduction {
  // NOLINTNEXTLINE(google-explicit-constructor): a ReduceOp is the reduction that multiplies by 1.
  constexpr Reduction(ReduceOp of_values, Ratio multiply_by = {}) : op(of_values), factor(multiply_by) {}

  ReduceOp op;
  Ratio factor;
};

}  // namespace sim
