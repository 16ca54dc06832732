#include "sim/tensor/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

void require_pair(const Tensor& a, const Tensor& b, const char* user) {
  require_own(a, user);
  require_usable(b, a.device(), user);
  require_same_shape(a, b, user);
}

}  // namespace

void fill(Tensor& out, double value) {
  require_own(out, "fill");
  require_write(out, "fill");
  const bool whole_only = out.dtype() == DType::field || out.dtype() == DType::i32;
  constexpr double kLargest = 2147483647;
  if (whole_only && (value != std::floor(value) || std::fabs(value) > kLargest)) {
    refuse({.code = "not_whole",
            .option = "fill",
            .numbers = fmt::format("{} into {}", value, name_of(out.dtype())),
            .rule = "field and i32 take whole numbers of at most 2^31 - 1 in magnitude",
            .hint = "a whole number, and then scale() by a ratio"});
  }
  out.device().fill(out, value);
}

void copy(const Tensor& from, Tensor& to) {
  require_pair(from, to, "copy");
  require_same_dtype(from, to, "copy");
  require_no_partial_overlap(from, to, "copy");
  require_read(from, "copy");
  require_write(to, "copy");
  to.device().copy(from, to);
}

Tensor combine(ReduceOp op, const Tensor& a, const Tensor& b) {
  const char* user = name_of(op).data();
  if (op > ReduceOp::average) {
    refuse({.code = "bad_reduction",
            .option = "combine",
            .numbers = fmt::format("ReduceOp({})", static_cast<int>(op)),
            .rule = "a reduction is one of the named values of ReduceOp",
            .hint = "ReduceOp::sum"});
  }
  require_pair(a, b, user);
  require_same_dtype(a, b, user);
  require_read(a, user);
  require_read(b, user);
  Tensor out = a.device().empty(a.dtype(), a.shape());
  a.device().combine(op, a, b, out);
  return out;
}

Tensor add(const Tensor& a, const Tensor& b) { return combine(ReduceOp::sum, a, b); }

void add_to(Tensor& inout, const Tensor& b) {
  require_pair(inout, b, "add_to");
  require_same_dtype(inout, b, "add_to");
  require_no_partial_overlap(inout, b, "add_to");
  require_write(inout, "add_to");
  require_read(b, "add_to");
  inout.device().combine(ReduceOp::sum, inout, b, inout);
}

Tensor scale(const Tensor& a, Ratio ratio) {
  require_own(a, "scale");
  require_ratio(a.dtype(), ratio, "scale");
  require_read(a, "scale");
  Tensor out = a.device().empty(a.dtype(), a.shape());
  a.device().scale(a, ratio, out);
  return out;
}

void scale_in_place(Tensor& inout, Ratio ratio) {
  require_own(inout, "scale_in_place");
  require_ratio(inout.dtype(), ratio, "scale_in_place");
  require_write(inout, "scale_in_place");
  inout.device().scale(inout, ratio, inout);
}

Tensor cast(const Tensor& from, DType dtype) {
  require_own(from, "cast");
  require_read(from, "cast");
  const auto is_float = [](DType type) { return type != DType::field && type != DType::i32; };
  const bool fine =
      from.dtype() == dtype || from.dtype() == DType::i32 || (is_float(from.dtype()) && is_float(dtype));
  if (!fine) {
    refuse({.code = "bad_cast",
            .option = "cast",
            .numbers = fmt::format("{} to {}", name_of(from.dtype()), name_of(dtype)),
            .rule = "floats are cast to floats, and i32 to any dtype; a field element has no numeric value",
            .hint = "make the tensor with the dtype that it needs"});
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
            .rule = "the values have as many bytes as the tensor",
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

std::vector<std::byte> host_bytes(const Tensor& from) {
  require_own(from, "to_host");
  require_read(from, "to_host");
  std::vector<std::byte> values(static_cast<std::size_t>(from.bytes()));
  from.device().to_host(from, values);
  return values;
}

}  // namespace sim
