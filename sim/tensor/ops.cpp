#include "sim/tensor/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

namespace {

void check_pair(const Tensor& a, const Tensor& b, const char* user) {
  check_own(a, user);
  check_usable(b, a.device(), user);
  check_same_shape(a, b, user);
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
  check_ratio(a.dtype(), ratio, "scale");
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
