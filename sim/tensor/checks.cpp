#include "sim/tensor/checks.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "sim/base/error.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

[[noreturn]] void refuse_foreign(const Tensor& tensor, const char* user) {
  refuse({.code = "wrong_device",
          .option = user,
          .numbers = fmt::format("a tensor {} of another rank or device", text_of(tensor.shape())),
          .rule = "a rank uses only tensors that its own device made",
          .hint = "make the tensor with rank.device, or send it from rank to rank"});
}

}  // namespace

void require_own(const Tensor& tensor, const char* user) {
  if (tensor.is_none()) refuse_none(user);
  if (running_device() != nullptr && running_device() != &tensor.device()) refuse_foreign(tensor, user);
}

void require_usable(const Tensor& tensor, const Device& device, const char* user) {
  require_own(tensor, user);
  if (&tensor.device() != &device) refuse_foreign(tensor, user);
}

void require_same_dtype(const Tensor& a, const Tensor& b, const char* user) {
  if (a.dtype() == b.dtype()) return;
  refuse({.code = "dtype_mismatch",
          .option = user,
          .numbers = fmt::format("{} and {}", name_of(a.dtype()), name_of(b.dtype())),
          .rule = "both tensors have the same dtype",
          .hint = "cast() one of them"});
}

void require_same_shape(const Tensor& a, const Tensor& b, const char* user) {
  if (a.shape() == b.shape()) return;
  refuse({.code = "shape_mismatch",
          .option = user,
          .numbers = fmt::format("{} and {}", text_of(a.shape()), text_of(b.shape())),
          .rule = "both tensors have the same shape",
          .hint = "reshaped() or rows(), to give both the same shape"});
}

void require_computes(const Tensor& tensor, const char* user) {
  if (tensor.dtype() != DType::i32) return;
  refuse({.code = "bad_dtype",
          .option = user,
          .numbers = fmt::format("a tensor {} of i32", text_of(tensor.shape())),
          .rule = "layers compute in f64, f32, bf16 and field",
          .hint = "cast() it to one of these dtypes"});
}

void require_i32(const Tensor& tensor, const char* user) {
  if (tensor.dtype() == DType::i32) return;
  refuse({.code = "bad_dtype",
          .option = user,
          .numbers = fmt::format("token ids {} of {}", text_of(tensor.shape()), name_of(tensor.dtype())),
          .rule = "token ids and targets are i32",
          .hint = "a tensor of i32"});
}

void require_shapes(bool holds, std::initializer_list<const Tensor*> tensors, const char* user,
                    const char* rule) {
  if (holds) return;
  std::string shapes;
  for (const Tensor* tensor : tensors) {
    shapes += (shapes.empty() ? "" : ", ") + text_of(tensor->shape());
  }
  if (tensors.size() > 1) shapes += ", in the order of its arguments";
  refuse({.code = "shape_mismatch",
          .option = user,
          .numbers = shapes,
          .rule = rule,
          .hint = "tensors of these shapes; reshaped() changes the shape of one"});
}

void require_read(const Tensor& tensor, const char* user) {
  tensor.storage().require_access(tensor.range(), Access::read, user);
}

void require_write(const Tensor& tensor, const char* user) {
  tensor.storage().require_access(tensor.range(), Access::write, user);
}

void require_no_partial_overlap(const Tensor& a, const Tensor& b, const char* user) {
  if (!a.overlaps(b) || a.range() == b.range()) return;
  refuse({.code = "partial_overlap",
          .option = user,
          .numbers = fmt::format("bytes {} to {} and {} to {} of one buffer", a.range().begin, a.range().end,
                                 b.range().begin, b.range().end),
          .rule = "the output is one of the inputs, or overlaps none of them",
          .hint = "rows() that do not overlap, or a separate output tensor"});
}

void require_apart(const Tensor& input, const Tensor& output, const char* user) {
  if (!input.overlaps(output)) return;
  refuse({.code = "partial_overlap",
          .option = user,
          .numbers = fmt::format("bytes {} to {} and {} to {} of one buffer", input.range().begin,
                                 input.range().end, output.range().begin, output.range().end),
          .rule = "the tensor that is written overlaps none of the inputs",
          .hint = "a separate output tensor"});
}

void require_inputs(std::initializer_list<const Tensor*> inputs, const char* user) {
  const Tensor& first = **inputs.begin();
  for (const Tensor* input : inputs) {
    require_own(*input, user);
    require_usable(*input, first.device(), user);
    require_same_dtype(first, *input, user);
    require_computes(*input, user);
    require_read(*input, user);
  }
}

void require_sums(const Tensor& sums, const Tensor& of, const char* user) {
  require_usable(sums, of.device(), user);
  require_write(sums, user);
  if (sums.dtype() == sum_dtype(of.dtype())) return;
  refuse({.code = "dtype_mismatch",
          .option = user,
          .numbers = fmt::format("sums of {} in {}", name_of(of.dtype()), name_of(sums.dtype())),
          .rule = "sums of bf16 are kept in f32, and sums of any other dtype in that dtype",
          .hint = fmt::format("a tensor of {}", name_of(sum_dtype(of.dtype())))});
}

void require_ratio(DType dtype, Ratio ratio, const char* user) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  const bool in_range = -kLargest <= ratio.numerator && ratio.numerator <= kLargest &&
                        0 < ratio.denominator && ratio.denominator <= kLargest;
  const bool has_inverse = dtype != DType::field ||
                           std::none_of(kFieldPrimes.begin(), kFieldPrimes.end(),
                                        [&](std::int64_t prime) { return ratio.denominator % prime == 0; });
  if (in_range && has_inverse) return;
  refuse({.code = "bad_ratio",
          .option = user,
          .numbers = fmt::format("{}/{} in {}", ratio.numerator, ratio.denominator, name_of(dtype)),
          .rule = "the numerator is from -2^31 to 2^31 and the denominator from 1 to 2^31; in the field the "
                  "denominator is no multiple of one of its primes",
          .hint = in_range ? "a denominator that no prime of the field divides"
                           : "a ratio in lowest terms, with its sign in the numerator"});
}

std::int64_t columns_of(const Tensor& tensor) {
  const std::size_t dimensions = tensor.shape().dimensions();
  return dimensions == 0 ? 1 : tensor.shape()[dimensions - 1];
}

std::int64_t rows_of(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape().dimensions(); ++i) rows *= tensor.shape()[i];
  return rows;
}

DType sum_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

}  // namespace sim
