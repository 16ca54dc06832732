#pragma once

/// Runs the same kernel on the CPU device and on a CUDA device and compares the results bit for bit.
///
/// Shapes  Values are drawn on the host and copied to both devices. A NaN equals a NaN, whatever its bits.
/// Calls   A rung of the ladder makes one BothDevices and compares with it. When the object is destroyed, it
///         prints what it has proved.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/tensor/device.h"

namespace test {

/// The device of this program's gpu library. Without a GPU the device is null, and `why_not` says why.
struct GpuUnderTest {
  std::shared_ptr<sim::Device> device;
  std::string why_not;
};
GpuUnderTest gpu_under_test();

struct Given {
  sim::DType dtype;
  sim::Shape shape;
  std::vector<std::byte> values;
};

/// Draws values of any magnitude. With `extremes`, one in eight is a NaN, an infinity, a zero of either
/// sign, or among the largest and least values.
Given drawn(sim::DType dtype, const sim::Shape& shape, const sim::KeyedRandom& random, bool extremes);
Given drawn_ids(const sim::Shape& shape, const sim::KeyedRandom& random, std::int32_t least,
                std::int32_t most);
/// Returns every value that a bf16 can have. In a wider dtype, the values have further digits.
Given every_bfloat(sim::DType dtype, const sim::KeyedRandom& random);

// These functions are called inside a property.
sim::DType drawn_float();
sim::KeyedRandom drawn_random();
bool drawn_bool();
/// Draws a size up to `most`. It is sometimes 0 or 1, and often next to a multiple of 16.
std::int64_t drawn_size(std::int64_t most);

/// What a kernel makes of its input tensors, some of which it may change in place.
using Kernel = std::function<std::vector<sim::Tensor>(sim::Device&, std::vector<sim::Tensor>&)>;

class BothDevices {
 public:
  BothDevices(std::string rung, std::shared_ptr<sim::Device> gpu);
  ~BothDevices();
  BothDevices(const BothDevices&) = delete;
  BothDevices& operator=(const BothDevices&) = delete;

  sim::Device& gpu() { return *gpu_; }
  sim::Device& cpu() { return *cpu_; }
  /// Returns "" if all outputs are the same on both devices.
  std::string difference(const std::vector<Given>& inputs, const Kernel& kernel);
  /// Counts a comparison that was made elsewhere.
  void count(std::int64_t elements);

 private:
  std::string rung_;
  std::shared_ptr<sim::Device> cpu_;
  std::shared_ptr<sim::Device> gpu_;
  std::int64_t runs_ = 0;
  std::int64_t elements_ = 0;
  std::int64_t empty_ = 0;
  std::int64_t largest_ = 0;
};

/// Returns "" if the elements are the same.
std::string first_difference(sim::DType dtype, const std::vector<std::byte>& a,
                             const std::vector<std::byte>& b);

}  // namespace test

/// Gets the GPU device for a rung, or skips the test and says why.
#define GPU_OR_SKIP(name)                     \
  const auto name = ::test::gpu_under_test(); \
  if (name.device == nullptr) GTEST_SKIP() << name.why_not
