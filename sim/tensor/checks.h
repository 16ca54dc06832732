#pragma once

/// What operations ask before they compute. Each refuses with the tensors, the numbers and the rule; `user`
/// names the operation.
///
/// Errors  null_tensor, wrong_device, dtype_mismatch, shape_mismatch, partial_overlap, bad_dtype, bad_ratio;
///         those of storage.h.

#include <initializer_list>

#include "sim/tensor/device.h"

namespace sim {

/// A tensor that is there, and belongs to the rank that runs, if one does.
void check_own(const Tensor& tensor, const char* user);
/// Of this device, too.
void check_usable(const Tensor& tensor, const Device& device, const char* user);
void check_same_dtype(const Tensor& a, const Tensor& b, const char* user);
void check_same_shape(const Tensor& a, const Tensor& b, const char* user);
/// A dtype that layers compute in: any but i32.
void check_computes(const Tensor& tensor, const char* user);
/// Token ids and the like.
void check_is_i32(const Tensor& tensor, const char* user);
/// `holds`, or the shapes of these tensors do not go together.
void check_shapes(bool holds, std::initializer_list<const Tensor*> tensors, const char* user,
                  const char* rule);

/// No call in flight forbids it.
void check_read(const Tensor& tensor, const char* user);
void check_write(const Tensor& tensor, const char* user);
void check_no_partial_overlap(const Tensor& a, const Tensor& b, const char* user);
void check_apart(const Tensor& input, const Tensor& output, const char* user);

/// Inputs of a kernel: own, readable, of one device and one dtype that computes.
void check_inputs(std::initializer_list<const Tensor*> inputs, const char* user);

/// A tensor that sums of `of` are in, and can be added to.
void check_sums(const Tensor& sums, const Tensor& of, const char* user);
/// A ratio that the dtype can hold (device.h).
void check_ratio(DType dtype, Ratio ratio, const char* user);

/// Elements of the last dimension, and how many rows of them there are.
std::int64_t columns_of(const Tensor& tensor);
std::int64_t rows_of(const Tensor& tensor);

/// What gradients of a tensor are summed in: f32 for bf16, its own dtype for all others.
DType sum_dtype(DType dtype);

}  // namespace sim
