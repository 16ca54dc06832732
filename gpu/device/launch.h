#pragma once

/// How a kernel is run: a function of an element, or of a row, called for each. Kernels are written against
/// this, and defined for CUDA by gpu/cuda/launch.h, for the processor by gpu/on_host/launch.h.
///
/// Shapes  of a row, sixteen lanes work together: lane l has elements l, l + 16, ... A function of a row is
///         given its lanes:
///
///           lanes.sum<Wide>(n, term)        term(0) + ... + term(n - 1), as sim/tensor/device.h says
///           lanes.max(number, n, term)      the largest; number is an sim::Arithmetic
///           lanes.each(n, call)             call(i) for i below n, each by its lane
///           lanes.first(call)               call() by one lane
///
/// Calls   functions are copied, and run when the stream comes to them, in any order of elements and rows.
///         What a lane writes may be read by the same lane, or by a later launch.

#include <cstdint>
#include <type_traits>

#include "gpu/device/kernels.h"
#include "sim/base/bfloat16.h"

namespace gpu {

inline constexpr int kLanes = 16;

template <typename Function>
void launch_elements(Stream* stream, std::int64_t count, const Function& function);

template <typename Function>
void launch_rows(Stream* stream, std::int64_t rows, const Function& function);

/// For each tile of the product, a block of threads (product_kernel.h).
template <typename Product>
void launch_tiles(Stream* stream, const Product& product);

/// visit(double{}), visit(float{}), visit(sim::bfloat16{}), visit(std::int32_t{})
template <typename Visit>
void with_element(ElementType type, Visit&& visit) {
  if (type == ElementType::f64) return visit(double{});
  if (type == ElementType::f32) return visit(float{});
  if (type == ElementType::bf16) return visit(sim::bfloat16{});
  return visit(std::int32_t{});
}

/// As with_element, for the types that layers compute in.
template <typename Visit>
void with_computing(ElementType type, Visit&& visit) {
  with_element(type, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), std::int32_t>) visit(scalar);
  });
}

/// As with_computing, for the types of sums.
template <typename Visit>
void with_sum(ElementType type, Visit&& visit) {
  with_computing(type, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), sim::bfloat16>) visit(scalar);
  });
}

/// For what only moves: visit(std::uint16_t{}), ...
template <typename Visit>
void with_bytes(std::int64_t size, Visit&& visit) {
  if (size == 2) return visit(std::uint16_t{});
  if (size == 4) return visit(std::uint32_t{});
  return visit(std::uint64_t{});
}

template <typename Scalar>
const Scalar* as(const void* pointer) {
  return static_cast<const Scalar*>(pointer);
}
template <typename Scalar>
Scalar* as(void* pointer) {
  return static_cast<Scalar*>(pointer);
}

}  // namespace gpu
