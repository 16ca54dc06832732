#include "sim/tensor/rotary.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <vector>

#include "sim/base/elementary.h"
#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

/// Returns the angle of every position and pair, in double.
std::vector<double> angles_of(std::int64_t first_position, const Shape& shape, std::int64_t base) {
  const double log_base = elementary::log(static_cast<double>(base));
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < shape[1]; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(shape[1]);
    frequencies.push_back(elementary::exp(exponent * log_base));
  }
  std::vector<double> angles;
  angles.reserve(static_cast<std::size_t>(shape.count()));
  for (std::int64_t p = 0; p < shape[0]; ++p) {
    for (const double frequency : frequencies)
      angles.push_back(static_cast<double>(first_position + p) * frequency);
  }
  return angles;
}

template <typename Function>
Tensor table(Device& device, DType dtype, const Shape& shape, std::vector<double> angles,
             const Function& function) {
  std::transform(angles.begin(), angles.end(), angles.begin(), function);
  return cast(from_host(device, DType::f64, shape, std::as_bytes(std::span(angles))), dtype);
}

}  // namespace

RotaryTables rotary_tables(Device& device, DType dtype, std::int64_t first_position, std::int64_t positions,
                           std::int64_t head_dim, std::int64_t base) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (head_dim < 2 || head_dim % 2 != 0 || first_position < 0 || positions < 0 || base < 1 ||
      base > (std::int64_t{1} << 40) || first_position + positions > kMost) {
    refuse({.code = "bad_rotary",
            .option = "rotary_tables",
            .numbers = fmt::format("positions {} to {}, head dimension {}, base {}", first_position,
                                   first_position + positions, head_dim, base),
            .rule = "the head dimension is even, positions are from 0 to 16,777,216, the base from 1 to 2^40",
            .hint = "a head dimension of 64 and a base of 10000"});
  }
  const Shape shape = {positions, head_dim / 2};
  if (dtype == DType::field) {
    const KeyedRandom random = KeyedRandom(static_cast<std::uint64_t>(base)).named("rotary");
    const std::int64_t first = first_position * shape[1];
    return {keyed(device, dtype, shape, random.named("cosine"), first),
            keyed(device, dtype, shape, random.named("sine"), first)};
  }
  if (!device.has_elements(dtype)) return {device.empty(dtype, shape), device.empty(dtype, shape)};
  const std::vector<double> angles = angles_of(first_position, shape, base);
  return {table(device, dtype, shape, angles, [](double x) { return elementary::cos(x); }),
          table(device, dtype, shape, angles, [](double x) { return elementary::sin(x); })};
}

Tensor rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward) {
  require_inputs({&x, &cosines, &sines}, "rotate");
  const Shape& shape = x.shape();
  const bool fits = shape.dimensions() == 4 && shape[3] % 2 == 0 &&
                    cosines.shape() == Shape{shape[0], shape[3] / 2} && sines.shape() == cosines.shape();
  require_shapes(fits, {&x, &cosines, &sines}, "rotate",
                 "x is [S, B, n, d] with d even, and cosines and sines are [S, d/2]");
  Tensor out = x.device().empty(x.dtype(), shape);
  x.device().rotate(x, cosines, sines, backward, out);
  return out;
}

}  // namespace sim
