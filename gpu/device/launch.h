#pragma once

/// Launches of kernels: a function object is called for each element, each row or each tile. Kernels are
/// written against this header; gpu/cuda/launch.h defines the launches for CUDA, and gpu/on_host/launch.h for
/// the processor.
///
/// Shapes  Sixteen lanes work together on a row: lane l has elements l, l + 16, ... The function of a row
///         receives its lanes as an argument:
///
///           lanes.sum<Wide>(n, term)        term(0) + ... + term(n - 1), as sim/tensor/device.h says
///           lanes.max(number, n, term)      the largest term; `number` is a sim::Arithmetic
///           lanes.each(n, call)             call(i) for each i below n, each on its lane
///           lanes.first(call)               call() on one lane only
///
/// Calls   Functions are copied, and run when the stream reaches them, for elements and rows in any order. A
///         value that a lane has written may be read by the same lane, or by a later launch.

#include <cstdint>
#include <type_traits>

#include "gpu/device/kernels.h"
#include "sim/base/bfloat16.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/dtype.h"
#include "sim/tensor/tensor.h"

namespace gpu {

using sim::columns_of;
using sim::rows_of;

inline constexpr int kLanes = 16;

template <typename Function>
void launch_elements(Stream* stream, std::int64_t count, const Function& function);

template <typename Function>
void launch_rows(Stream* stream, std::int64_t rows, const Function& function);

/// Runs a block of threads for each tile of the product (product_kernel.h).
template <typename Product>
void launch_tiles(Stream* stream, const Product& product);

/// Calls visit(double{}), visit(float{}), visit(sim::bfloat16{}) or visit(std::int32_t{}), depending on the
/// type.
template <typename Visit>
void with_element(sim::DType type, Visit&& visit) {
  if (type == sim::DType::f64) return visit(double{});
  if (type == sim::DType::f32) return visit(float{});
  if (type == sim::DType::bf16) return visit(sim::bfloat16{});
  return visit(std::int32_t{});
}

/// Like with_element, for the types that layers compute in: all but i32.
template <typename Visit>
void with_computing(sim::DType type, Visit&& visit) {
  with_element(type, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), std::int32_t>) visit(scalar);
  });
}

/// Like with_computing, for the types of sums: f64 and f32.
template <typename Visit>
void with_sum(sim::DType type, Visit&& visit) {
  with_computing(type, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), sim::bfloat16>) visit(scalar);
  });
}

/// For kernels that only move elements: calls visit(std::uint16_t{}), visit(std::uint32_t{}) or
/// visit(std::uint64_t{}), by the size of an element in bytes.
template <typename Visit>
void with_bytes(std::int64_t size, Visit&& visit) {
  if (size == 2) return visit(std::uint16_t{});
  if (size == 4) return visit(std::uint32_t{});
  return visit(std::uint64_t{});
}

/// Returns the address of a tensor's elements, or null for an empty Tensor().
template <typename Scalar>
Scalar* as(const Tensor& tensor) {
  return tensor.is_none() ? nullptr : reinterpret_cast<Scalar*>(tensor.data());
}

}  // namespace gpu
