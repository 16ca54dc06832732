#pragma once

/// The same kernel on the CPU device and on a CUDA device, and whether the same bits come out.
///
/// Shapes  values are drawn on the host and copied to both; a NaN equals a NaN, whatever its bits.
/// Calls   a rung of the ladder makes one BothDevices, compares, and when it goes it prints what it has
///         proved.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/tensor/device.h"

namespace test {

/// Of this program's gpu library; without a GPU null, and why.
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

/// Of any magnitude; where `extremes`, one in eight is a NaN, an infinity, a zero of either sign, or among
/// the largest and least.
Given drawn(sim::DType dtype, const sim::Shape& shape, const sim::KeyedRandom& random, bool extremes);
Given drawn_ids(const sim::Shape& shape, const sim::KeyedRandom& random, std::int32_t least,
                std::int32_t most);
/// All floats that a bf16 can be; of a wider dtype, with digits below.
Given every_bfloat(sim::DType dtype, const sim::KeyedRandom& random);

// Inside a property.
sim::DType drawn_float();
/// Up to `most`; sometimes 0 or 1, often beside a multiple of 16.
std::int64_t drawn_size(std::int64_t most);

/// What a kernel makes of tensors, some of them changed in place.
using Kernel = std::function<std::vector<sim::Tensor>(sim::Device&, std::vector<sim::Tensor>&)>;

class BothDevices {
 public:
  BothDevices(std::string rung, std::shared_ptr<sim::Device> gpu);
  ~BothDevices();
  BothDevices(const BothDevices&) = delete;
  BothDevices& operator=(const BothDevices&) = delete;

  sim::Device& gpu() { return *gpu_; }
  sim::Device& cpu() { return *cpu_; }
  /// "" where all outputs are the same.
  std::string difference(const std::vector<Given>& inputs, const Kernel& kernel);
  /// Of what has been compared elsewhere.
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

/// "" where they are the same elements.
std::string first_difference(sim::DType dtype, const std::vector<std::byte>& a,
                             const std::vector<std::byte>& b);

}  // namespace test

/// The rung's device, or the reason why it is skipped.
#define GPU_OR_SKIP(name)                     \
  const auto name = ::test::gpu_under_test(); \
  if (name.device == nullptr) GTEST_SKIP() << name.why_not
