// Proves that NaNs get the bits of the plain one, and that nothing else changes.

#include "sim/tensor/plain_nan.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <span>
#include <vector>

#include "sim/base/bfloat16.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/support/drawn_scalars.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;

/// One bit pattern in two is a NaN, or an infinity.
template <typename Bits>
std::vector<Bits> drawn_bits(Bits infinity) {
  auto bits = *rc::gen::container<std::vector<Bits>>(rc::gen::arbitrary<Bits>());
  for (Bits& each : bits) {
    if (*rc::gen::arbitrary<bool>()) each = static_cast<Bits>(each | infinity);
    if (*rc::gen::inRange(0, 8) == 0) each = infinity;
    if (*rc::gen::arbitrary<bool>()) each = static_cast<Bits>(each ^ (Bits{1} << (8 * sizeof(Bits) - 1)));
  }
  return bits;
}

template <typename Bits, typename IsNan>
void expect_plain(DType dtype, Bits infinity, Bits plain, const IsNan& is_nan) {
  const std::vector<Bits> given = drawn_bits(infinity);
  std::vector<std::byte> bytes = test::bits_of(given);
  make_nans_plain(dtype, bytes);
  const std::vector<Bits> made = test::scalars<Bits>(bytes);
  for (std::size_t i = 0; i < given.size(); ++i) RC_ASSERT(made[i] == (is_nan(given[i]) ? plain : given[i]));
}

RC_GTEST_PROP(PlainNan, IsEveryNanAndNothingElse, ()) {
  expect_plain<std::uint64_t>(DType::f64, 0x7ff0000000000000, 0x7ff8000000000000,
                              [](std::uint64_t bits) { return std::isnan(std::bit_cast<double>(bits)); });
  expect_plain<std::uint32_t>(DType::f32, 0x7f800000, 0x7fc00000,
                              [](std::uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); });
  expect_plain<std::uint16_t>(DType::bf16, 0x7f80, 0x7fc0, [](std::uint16_t bits) {
    return std::isnan(to_float(std::bit_cast<bfloat16>(bits)));
  });
}

RC_GTEST_PROP(PlainNan, LeavesWholeNumbersAndTheField, ()) {
  const auto words = drawn_bits<std::uint64_t>(0x7ff0000000000000);
  for (const DType dtype : {DType::i32, DType::field}) {
    std::vector<std::byte> bytes = test::bits_of(words);
    make_nans_plain(dtype, bytes);
    RC_ASSERT(bytes == test::bits_of(words));
  }
}

// A GPU makes another NaN of the same operands than this processor. What ranks publish does not show it.
TEST(PlainNan, RunsThatDifferInTheBitsOfNansAreEqual) {
  CpuDevice device;
  const auto run_with = [&](std::uint32_t nan) {
    return simulate(world_of(2), device, [&](Rank& rank) {
      const std::vector<std::uint32_t> values = {0x3f800000, nan, 0x7f800000};
      rank.publish("x", from_host(rank.device, DType::f32, {3}, std::as_bytes(std::span(values))));
    });
  };
  const RunReport poisoned = run_with(0xffffffff), of_gpu = run_with(0x7fffffff),
                  other = run_with(0x40000000);
  EXPECT_EQ(poisoned.run_hash, of_gpu.run_hash);
  EXPECT_EQ(poisoned.find(0, "x")->values, of_gpu.find(0, "x")->values);
  EXPECT_NE(poisoned.run_hash, other.run_hash);
}

}  // namespace
