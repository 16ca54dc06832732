#include "tests/gpu/both_devices.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <rapidcheck.h>

#include "gpu/device/gpu_device.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/float_arithmetic.h"
#include "sim/tensor/ops.h"
#include "tests/support/drawn_scalars.h"
#include "tests/support/tensor_values.h"

namespace test {

namespace {

using namespace sim;

template <typename Scalar>
Scalar extreme(std::uint32_t which) {
  using Limits = std::numeric_limits<double>;
  const double least = std::is_same_v<Scalar, double> ? Limits::denorm_min() : 0x1p-149;
  const double values[] = {
      Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), 0.0, -0.0, least, -least, 0x1p-126,
      0x1.9p-130,          0x1.fcp127,         -0x1.fcp127,         88.5};
  const double value = values[which % std::size(values)];
  return rounded_to<Scalar>(value);
}

template <typename Scalar>
std::vector<std::byte> bytes_of(const std::vector<Scalar>& values) {
  return bits_of(values);
}

template <typename Scalar>
std::string first_difference_of(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const auto left = scalars<Scalar>(a);
  const auto right = scalars<Scalar>(b);
  if (left.size() != right.size()) return fmt::format("{} elements and {}", left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::memcmp(&left[i], &right[i], sizeof(Scalar)) == 0) continue;
    if constexpr (!std::is_same_v<Scalar, Field>) {
      const auto x = rounded_to<double>(left[i]);
      const auto y = rounded_to<double>(right[i]);
      if (x != x && y != y) continue;
      return fmt::format("element {} of {}: {:a} and {:a}", i, left.size(), x, y);
    }
    return fmt::format("element {} of {}", i, left.size());
  }
  return "";
}

}  // namespace

GpuUnderTest gpu_under_test() {
  try {
    return {gpu::make_gpu_device(), ""};
  } catch (const Error& error) {
    if (error.refusal().code != "cuda_unavailable") throw;
    return {nullptr, error.what()};
  }
}

Given drawn(DType dtype, const Shape& shape, const KeyedRandom& random, bool extremes) {
  Given given{dtype, shape, {}};
  with_scalar(dtype, [&](auto scalar) {
    using Scalar = decltype(scalar);
    auto values = drawn_scalars<Scalar>(random, shape.count());
    if constexpr (!std::is_same_v<Scalar, Field> && !std::is_same_v<Scalar, std::int32_t>) {
      const KeyedRandom which = random.named("extremes");
      for (std::size_t i = 0; i < values.size() && extremes; ++i) {
        if (which.below(2 * i, 8) == 0) values[i] = extreme<Scalar>(which.below(2 * i + 1, 12));
      }
    }
    given.values = bytes_of(values);
  });
  return given;
}

Given drawn_ids(const Shape& shape, const KeyedRandom& random, std::int32_t least, std::int32_t most) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = least + static_cast<std::int32_t>(random.below(i, static_cast<std::uint32_t>(most - least + 1)));
  return {DType::i32, shape, bytes_of(ids)};
}

Given every_bfloat(DType dtype, const KeyedRandom& random) {
  constexpr std::int64_t kCount = 65536;
  Given given{dtype, {kCount}, {}};
  with_scalar(dtype, [&](auto scalar) {
    using Scalar = decltype(scalar);
    if constexpr (!std::is_same_v<Scalar, Field>) {
      std::vector<Scalar> values(kCount);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = to_float(bfloat16{static_cast<std::uint16_t>(i)});
        values[i] = rounded_to<Scalar>(value + value * random.uniform(i) / 512);
      }
      given.values = bytes_of(values);
    }
  });
  return given;
}

DType drawn_float() { return *rc::gen::element(DType::f64, DType::f32, DType::bf16); }
sim::KeyedRandom drawn_random() { return sim::KeyedRandom(*rc::gen::arbitrary<std::uint64_t>()); }
bool drawn_bool() { return *rc::gen::arbitrary<bool>(); }

std::int64_t drawn_size(std::int64_t most) {
  const auto any = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, most + 1));
  const auto of_sixteen = std::min(most, any / 16 * 16 + *rc::gen::inRange<std::int64_t>(0, 3));
  const auto which = *rc::gen::inRange(0, 24);
  if (which < 2) return which;
  return which % 2 == 0 || most < 16 ? any : of_sixteen;
}

BothDevices::BothDevices(std::string rung, std::shared_ptr<Device> gpu)
    : rung_(std::move(rung)), cpu_(std::make_shared<CpuDevice>()), gpu_(std::move(gpu)) {}

BothDevices::~BothDevices() {
  std::cout << fmt::format(
      "rung {}: {} comparisons, {} of them of something empty, {} elements at most, {} in all; each equal to "
      "the bit\n",
      rung_, runs_, empty_, largest_, elements_);
}

void BothDevices::count(std::int64_t elements) {
  ++runs_;
  elements_ += elements;
  largest_ = std::max(largest_, elements);
  if (elements == 0) ++empty_;
}

std::string BothDevices::difference(const std::vector<Given>& inputs, const Kernel& kernel) {
  const auto outputs_on = [&](Device& device) {
    std::vector<Tensor> tensors;
    for (const Given& input : inputs)
      tensors.push_back(from_host(device, input.dtype, input.shape, input.values));
    return kernel(device, tensors);
  };
  const std::vector<Tensor> expected = outputs_on(*cpu_);
  const std::vector<Tensor> found = outputs_on(*gpu_);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string difference =
        first_difference(expected[i].dtype(), host_bytes(expected[i]), host_bytes(found.at(i)));
    if (!difference.empty())
      return fmt::format("output {}, {} {}: {}", i, name_of(expected[i].dtype()),
                         text_of(expected[i].shape()), difference);
    count(expected[i].count());
  }
  return "";
}

std::string first_difference(DType dtype, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  std::string difference;
  with_scalar(dtype, [&](auto scalar) { difference = first_difference_of<decltype(scalar)>(a, b); });
  return difference;
}

}  // namespace test
