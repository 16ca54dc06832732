#include "sim/tensor/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string>

#include "sim/base/error.h"
#include "sim/tensor/running_device.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

namespace {

void check_present(const Tensor& tensor, const char* user) {
  if (!tensor.is_none()) return;
  refuse({.code = "null_tensor",
          .option = user,
          .numbers = "a tensor that was never made",
          .rule = "every tensor comes from a device",
          .hint = "Device::empty, filled or keyed"});
}

[[noreturn]] void refuse_foreign(const Tensor& tensor, const char* user) {
  refuse({.code = "wrong_device",
          .option = user,
          .numbers = fmt::format("a tensor {} of another rank or device", text_of(tensor.shape())),
          .rule = "a rank uses tensors that its own device made",
          .hint = "make it with rank.device, or send it"});
}

void check_own(const Tensor& tensor, const char* user) {
  check_present(tensor, user);
  if (running_device() != nullptr && running_device() != &tensor.device()) refuse_foreign(tensor, user);
}

void check_same_dtype(const Tensor& a, const Tensor& b, const char* user) {
  if (a.dtype() == b.dtype()) return;
  refuse({.code = "dtype_mismatch",
          .option = user,
          .numbers = fmt::format("{} and {}", name_of(a.dtype()), name_of(b.dtype())),
          .rule = "both tensors have one dtype",
          .hint = "cast one of them"});
}

void check_same_shape(const Tensor& a, const Tensor& b, const char* user) {
  if (a.shape() == b.shape()) return;
  refuse({.code = "shape_mismatch",
          .option = user,
          .numbers = fmt::format("{} and {}", text_of(a.shape()), text_of(b.shape())),
          .rule = "both tensors have one shape",
          .hint = "reshaped() or rows()"});
}

void check_pair(const Tensor& a, const Tensor& b, const char* user) {
  check_own(a, user);
  check_usable(b, a.device(), user);
  check_same_shape(a, b, user);
}

void check_read(const Tensor& tensor, const char* user) {
  tensor.storage().check_access(tensor.range(), Access::read, user);
}

void check_write(const Tensor& tensor, const char* user) {
  tensor.storage().check_access(tensor.range(), Access::write, user);
}

void check_no_partial_overlap(const Tensor& a, const Tensor& b, const char* user) {
  if (!a.overlaps(b) || a.range() == b.range()) return;
  refuse({.code = "partial_overlap",
          .option = user,
          .numbers = fmt::format("bytes {} to {} and {} to {} of one buffer", a.range().begin, a.range().end,
                                 b.range().begin, b.range().end),
          .rule = "what is written is one of the inputs, or lies apart from them",
          .hint = "rows() that lie apart, or a tensor of its own"});
}

void check_ratio(DType dtype, Ratio ratio) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  const bool in_range = -kLargest <= ratio.numerator && ratio.numerator <= kLargest &&
                        0 < ratio.denominator && ratio.denominator <= kLargest;
  const bool has_inverse = dtype != DType::field ||
                           std::none_of(kFieldPrimes.begin(), kFieldPrimes.end(),
                                        [&](std::int64_t prime) { return ratio.denominator % prime == 0; });
  if (in_range && has_inverse) return;
  refuse({.code = "bad_ratio",
          .option = "scale",
          .numbers = fmt::format("{}/{} in {}", ratio.numerator, ratio.denominator, name_of(dtype)),
          .rule =
              "a numerator up to 2^31 either way, a denominator from 1 to 2^31; in the field no multiple of "
              "one of its primes",
          .hint = in_range ? "another denominator"
                           : "the sign in the numerator, both divided by what they share"});
}

/// Of the i-th element, as keyed() documents it.
template <typename Scalar>
Scalar keyed_value(const KeyedRandom& random, std::uint64_t index) {
  if constexpr (std::is_same_v<Scalar, bfloat16>) {
    return to_bfloat16(keyed_value<double>(random, index));
  } else if constexpr (std::is_same_v<Scalar, std::int32_t>) {
    return static_cast<std::int32_t>(random.below(index, 2001)) - 1000;
  } else if constexpr (std::is_same_v<Scalar, Field>) {
    Field value;
    for (std::size_t level = 0; level < kFieldLevels; ++level) {
      value.residues[level] =
          random.below(index * kFieldLevels + level, static_cast<std::uint32_t>(kFieldPrimes[level]));
    }
    return value;
  } else {
    return static_cast<Scalar>(2 * random.uniform(index) - 1);
  }
}

}  // namespace

void check_usable(const Tensor& tensor, const Device& device, const char* user) {
  check_own(tensor, user);
  if (&tensor.device() != &device) refuse_foreign(tensor, user);
}

void fill(Tensor& out, double value) {
  check_own(out, "fill");
  check_write(out, "fill");
  const bool whole_only = out.dtype() == DType::field || out.dtype() == DType::i32;
  constexpr double kLargest = 2147483647;
  if (whole_only && (value != std::floor(value) || std::fabs(value) > kLargest)) {
    refuse({.code = "not_whole",
            .option = "fill",
            .numbers = fmt::format("{} into {}", value, name_of(out.dtype())),
            .rule = "field and i32 take whole numbers of 31 bits",
            .hint = "scale() by a ratio"});
  }
  out.device().fill(out, value);
}

void copy(const Tensor& from, Tensor& to) {
  check_pair(from, to, "copy");
  check_same_dtype(from, to, "copy");
  check_no_partial_overlap(from, to, "copy");
  check_read(from, "copy");
  check_write(to, "copy");
  to.device().copy(from, to);
}

Tensor combine(ReduceOp op, const Tensor& a, const Tensor& b) {
  const char* user = name_of(op).data();
  if (op > ReduceOp::average) {
    refuse({.code = "bad_reduction",
            .option = "combine",
            .numbers = fmt::format("ReduceOp({})", static_cast<int>(op)),
            .rule = "a reduction is one of ReduceOp's names",
            .hint = "ReduceOp::sum"});
  }
  check_pair(a, b, user);
  check_same_dtype(a, b, user);
  check_read(a, user);
  check_read(b, user);
  Tensor out = a.device().empty(a.dtype(), a.shape());
  a.device().combine(op, a, b, out);
  return out;
}

Tensor add(const Tensor& a, const Tensor& b) { return combine(ReduceOp::sum, a, b); }

void add_to(Tensor& inout, const Tensor& b) {
  check_pair(inout, b, "add_to");
  check_same_dtype(inout, b, "add_to");
  check_no_partial_overlap(inout, b, "add_to");
  check_write(inout, "add_to");
  check_read(b, "add_to");
  inout.device().combine(ReduceOp::sum, inout, b, inout);
}

Tensor scale(const Tensor& a, Ratio ratio) {
  check_own(a, "scale");
  check_ratio(a.dtype(), ratio);
  check_read(a, "scale");
  Tensor out = a.device().empty(a.dtype(), a.shape());
  a.device().scale(a, ratio, out);
  return out;
}

Tensor cast(const Tensor& from, DType dtype) {
  check_own(from, "cast");
  check_read(from, "cast");
  const auto is_float = [](DType type) { return type != DType::field && type != DType::i32; };
  const bool fine =
      from.dtype() == dtype || from.dtype() == DType::i32 || (is_float(from.dtype()) && is_float(dtype));
  if (!fine) {
    refuse({.code = "bad_cast",
            .option = "cast",
            .numbers = fmt::format("{} to {}", name_of(from.dtype()), name_of(dtype)),
            .rule = "floats become floats, i32 becomes anything; a field element is no number",
            .hint = "make the tensor in the dtype it is to have"});
  }
  Tensor to = from.device().empty(dtype, from.shape());
  from.device().cast(from, to);
  return to;
}

Tensor from_host(Device& device, DType dtype, const Shape& shape, std::span<const std::byte> values) {
  if (std::ssize(values) != shape.count() * size_of(dtype)) {
    refuse({.code = "host_size",
            .option = "from_host",
            .numbers = fmt::format("{} bytes for {} of {}", values.size(), text_of(shape), name_of(dtype)),
            .rule = "as many bytes as the tensor has",
            .hint = fmt::format("{} bytes", shape.count() * size_of(dtype))});
  }
  Tensor out = device.empty(dtype, shape);
  device.from_host(values, out);
  return out;
}

Tensor filled(Device& device, DType dtype, const Shape& shape, double value) {
  Tensor out = device.empty(dtype, shape);
  fill(out, value);
  return out;
}

Tensor keyed(Device& device, DType dtype, const Shape& shape, const KeyedRandom& random,
             std::int64_t first_index) {
  return with_scalar(dtype, [&](auto scalar) {
    using Scalar = decltype(scalar);
    std::vector<Scalar> values(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = keyed_value<Scalar>(random, static_cast<std::uint64_t>(first_index) + i);
    }
    return from_host(device, dtype, shape, std::as_bytes(std::span(values)));
  });
}

std::vector<std::byte> host_bytes(const Tensor& from) {
  check_own(from, "to_host");
  check_read(from, "to_host");
  std::vector<std::byte> values(static_cast<std::size_t>(from.bytes()));
  from.device().to_host(from, values);
  return values;
}

}  // namespace sim
