#pragma once

/// The checks that operations make before they compute. Each refuses with the tensors, the numbers and
/// the rule; `user` names the operation.
///
/// Errors  null_tensor, wrong_device, dtype_mismatch, shape_mismatch, partial_overlap, bad_dtype,
///         bad_ratio; those of storage.h.

#include <initializer_list>

#include "sim/tensor/device.h"

namespace sim {

/// Requires that the tensor exists and, if a rank is running, that it belongs to that rank.
void require_own(const Tensor& tensor, const char* user);
/// Requires the same as require_own, and that the tensor belongs to this device.
void require_usable(const Tensor& tensor, const Device& device, const char* user);
void require_same_dtype(const Tensor& a, const Tensor& b, const char* user);
void require_same_shape(const Tensor& a, const Tensor& b, const char* user);
/// Requires a dtype that layers compute in: any except i32.
void require_computes(const Tensor& tensor, const char* user);
/// Requires i32, the dtype of token ids and targets.
void require_i32(const Tensor& tensor, const char* user);
/// Requires that `holds` is true; otherwise the shapes of these tensors do not fit together, and `rule`
/// says why.
void require_shapes(bool holds, std::initializer_list<const Tensor*> tensors, const char* user,
                    const char* rule);

/// require_read and require_write require that no communication call in flight forbids the access.
void require_read(const Tensor& tensor, const char* user);
void require_write(const Tensor& tensor, const char* user);
/// Requires that both tensors are the same bytes, or lie apart.
void require_no_partial_overlap(const Tensor& a, const Tensor& b, const char* user);
/// Requires that the tensors do not overlap at all.
void require_apart(const Tensor& input, const Tensor& output, const char* user);

/// Checks the inputs of a kernel: each belongs to this rank, can be read and has a dtype that layers
/// compute in, and all have one device and one dtype.
void require_inputs(std::initializer_list<const Tensor*> inputs, const char* user);

/// Requires that `sums` has the dtype in which sums of `of` are kept, and that it can be written.
void require_sums(const Tensor& sums, const Tensor& of, const char* user);
/// Requires a ratio that the dtype can hold (kernel_parameters.h).
void require_ratio(DType dtype, Ratio ratio, const char* user);

/// columns_of returns the number of elements in the last dimension, and rows_of the number of such rows.
std::int64_t columns_of(const Tensor& tensor);
std::int64_t rows_of(const Tensor& tensor);

/// Returns the dtype in which gradients of a tensor are summed: f32 for bf16, and the tensor's own dtype for
/// all others.
DType sum_dtype(DType dtype);

}  // namespace sim
