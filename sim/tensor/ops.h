#pragma once

/// The operations that rank programs call on tensors. They check shapes, dtypes, devices and calls in
/// flight here, once for all devices, and then make one virtual call that computes.
///
/// Errors  those of checks.h; host_size, not_whole, bad_cast, bad_ratio, bad_reduction, partial_overlap;
///         those of storage.h.

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/tensor/device.h"

namespace sim {

void fill(Tensor& out, double value);
void copy(const Tensor& from, Tensor& to);
/// Returns a op b, element by element.
Tensor combine(ReduceOp op, const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, const Tensor& b);
/// Adds b to inout, element by element.
void add_to(Tensor& inout, const Tensor& b);
Tensor scale(const Tensor& a, Ratio ratio);
/// Multiplies inout by the ratio.
void scale_in_place(Tensor& inout, Ratio ratio);
Tensor cast(const Tensor& from, DType dtype);

/// Returns a tensor of these values, given as the scalars of the dtype lie in memory.
Tensor from_host(Device& device, DType dtype, const Shape& shape, std::span<const std::byte> values);
Tensor filled(Device& device, DType dtype, const Shape& shape, double value);
/// Element i of row r depends on (random, first_index + r row_stride + i) alone, so a shard is a slice of
/// the whole tensor. With row_stride 0, rows follow one another. Floats are in [-1, 1) and rounded to the
/// dtype (so 1 occurs), i32 are whole numbers from -1000 to 1000, and field elements are drawn from all
/// elements.
Tensor keyed(Device& device, DType dtype, const Shape& shape, const KeyedRandom& random,
             std::int64_t first_index = 0, std::int64_t row_stride = 0);

/// Returns the values, as the scalars of the dtype lie in memory.
std::vector<std::byte> host_bytes(const Tensor& from);

}  // namespace sim
