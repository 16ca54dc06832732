// Proves that the operations of ops.h equal whole-number arithmetic or plainly written definitions, bit
// for bit.

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"
#include "tests/support/drawn_scalars.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;

std::vector<std::int32_t> many_whole_numbers(const KeyedRandom& random) {
  auto numbers = test::drawn_scalars<std::int32_t>(random, 40);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] >>= i % 32;  // numbers of all magnitudes
  numbers.insert(numbers.end(), {0, 1, -1, 2147483647, -2147483647 - 1, 16842753, 16908287});
  return numbers;
}

/// The bfloat16 of a double by definition, found by bisection of the bits: no other is nearer, and of
/// two that are equally near the even one is taken.
bfloat16 nearest_bfloat16(double value) {
  const double size = std::fabs(value);
  std::uint32_t below = 0;
  std::uint32_t above = 0x7f80;
  while (above - below > 1) {
    const std::uint32_t middle = (below + above) / 2;
    (double{to_float(bfloat16{static_cast<std::uint16_t>(middle)})} <= size ? below : above) = middle;
  }
  const auto at = [](std::uint32_t bits) {
    return bits == 0x7f80 ? 0x1p128 : double{to_float(bfloat16{static_cast<std::uint16_t>(bits)})};
  };
  const double down = size - at(below);
  const double up = at(above) - size;
  const std::uint32_t chosen = down < up || (down == up && below % 2 == 0) ? below : above;
  return {static_cast<std::uint16_t>(chosen | (std::signbit(value) ? 0x8000U : 0U))};
}

RC_GTEST_PROP(OpsValues, CastsToBfloat16RoundOnce, (std::uint64_t seed)) {
  CpuDevice device;
  std::vector<double> doubles;
  for (std::uint64_t i = 0; i < 20; ++i) {
    // These values lie next to a tie of two bfloat16s, closer to it than a float can tell.
    const auto upper = static_cast<std::uint32_t>(KeyedRandom(seed).bits(i)) & 0xffff0000U;
    const double tie = double{std::bit_cast<float>((upper & 0xbfffffffU) | 0x8000U)};
    for (const double beside : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, 4.0), tie * 1.5}) {
      doubles.push_back(beside);
    }
  }
  for (const double edge : {0.0, -0.0, 0x1p-1074, 0x1.fep127, 0x1.ff7fffffffp127, 0x1.ffp127, -0x1p128}) {
    doubles.push_back(edge);
  }
  std::erase_if(doubles, [](double value) { return !std::isfinite(value); });
  const auto count = static_cast<std::int64_t>(doubles.size());
  std::vector<bfloat16> expected;
  for (const double value : doubles) expected.push_back(nearest_bfloat16(value));
  RC_ASSERT(values<bfloat16>(cast(tensor_of(device, DType::f64, {count}, doubles), DType::bf16)) == expected);
  RC_ASSERT(values<bfloat16>(filled(device, DType::bf16, {1}, doubles[1]))[0] == expected[1]);
}

RC_GTEST_PROP(OpsValues, CastsOfWholeNumbersRoundOnce, (std::uint64_t seed)) {
  CpuDevice device;
  const std::vector<std::int32_t> numbers = many_whole_numbers(KeyedRandom(seed));
  const Tensor given = tensor_of(device, DType::i32, {static_cast<std::int64_t>(numbers.size())}, numbers);
  const auto f64 = values<double>(cast(given, DType::f64));
  const auto f32 = values<float>(cast(given, DType::f32));
  const auto bf16 = values<bfloat16>(cast(given, DType::bf16));
  const auto field = values<Field>(cast(given, DType::field));
  const auto narrowed = values<float>(cast(cast(given, DType::f64), DType::f32));
  const auto widened = values<double>(cast(cast(given, DType::bf16), DType::f64));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    RC_ASSERT(f64[i] == static_cast<double>(numbers[i]));
    RC_ASSERT(f32[i] == static_cast<float>(numbers[i]));
    RC_ASSERT(narrowed[i] == f32[i]);
    RC_ASSERT(bf16[i] == nearest_bfloat16(numbers[i]));
    RC_ASSERT(widened[i] == double{to_float(bf16[i])});
    for (std::size_t level = 0; level < kFieldLevels; ++level) {
      const std::int64_t prime = kFieldPrimes[level];
      RC_ASSERT(field[i].residues[level] == static_cast<double>(((numbers[i] % prime) + prime) % prime));
    }
  }
}

/// Returns whether no float is nearer to numerator / denominator. A distance times the denominator is a
/// multiple of the float's last place, and less than `denominator` of them. That is 31 bits, which one
/// fma gives exactly.
bool is_nearest(float quotient, Ratio ratio) {
  const auto distance = [&](float candidate) {
    return std::fabs(std::fma(-double{candidate}, static_cast<double>(ratio.denominator),
                              static_cast<double>(ratio.numerator)));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  return distance(quotient) <= distance(std::nextafter(quotient, infinity)) &&
         distance(quotient) <= distance(std::nextafter(quotient, -infinity));
}

RC_GTEST_PROP(OpsValues, ScalesByAQuotientThatIsRoundedOnce, ()) {
  CpuDevice device;
  const auto denominator = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << *rc::gen::inRange(1, 32));
  const auto numerator = *rc::gen::inRange<std::int64_t>(-(std::int64_t{1} << 31), std::int64_t{1} << 31) >>
                         *rc::gen::inRange(0, 32);
  const Ratio ratio = {numerator, denominator};
  const auto factor = values<float>(scale(filled(device, DType::f32, {1}, 1), ratio))[0];
  RC_ASSERT(is_nearest(factor, ratio));
  const double quotient = static_cast<double>(numerator) / static_cast<double>(denominator);
  RC_ASSERT(values<double>(scale(filled(device, DType::f64, {3}, 3), ratio)) ==
            std::vector<double>(3, 3 * quotient));
  RC_ASSERT(values<bfloat16>(scale(filled(device, DType::bf16, {3}, 3), ratio)) ==
            std::vector<bfloat16>(3, to_bfloat16(3 * factor)));
  const auto number = *rc::gen::arbitrary<std::int32_t>();
  const auto whole = tensor_of(device, DType::i32, {1}, std::vector<std::int32_t>{number});
  RC_ASSERT(values<std::int32_t>(scale(whole, ratio))[0] ==
            static_cast<std::int32_t>(number * numerator / denominator));
}

// These quotients lie within 2^-55 of a tie of two floats, so the double nearest to each is that tie.
TEST(OpsValues, AQuotientBesideATieIsRoundedOnce) {
  CpuDevice device;
  const auto factor = [&](Ratio ratio) {
    const float value = values<float>(scale(filled(device, DType::f32, {1}, 1), ratio))[0];
    EXPECT_TRUE(is_nearest(value, ratio));
    return value;
  };
  EXPECT_EQ(factor({2147483583, 2147483647}), 0x1.fffffep-1F);
  EXPECT_EQ(factor({-1288490173, 2147483643}), -0x1.333332p-1F);
  EXPECT_EQ(factor({1193046459, 2147483639}), 0x1.1c71c6p-1F);
}

// A multiple of a prime is 0 in the level of that prime. A denominator must not be such a multiple, but
// a numerator may.
TEST(OpsValues, ScalesTheFieldExactly) {
  CpuDevice device;
  const Tensor third = scale(filled(device, DType::field, {2}, 5), {-1, 3});
  EXPECT_EQ(values<Field>(scale(third, {-3, 5})), std::vector<Field>(2, Field::of(1)));
  EXPECT_EQ(values<Field>(scale(third, {3 * kFieldPrimes[0], 1}))[0].residues[0], 0.0);
}

TEST(OpsValues, AnIntegerIsCutTowardsZero) {
  CpuDevice device;
  const Tensor given =
      tensor_of(device, DType::i32, {4}, std::vector<std::int32_t>{7, -7, 2147483647, -2147483647});
  EXPECT_EQ(values<std::int32_t>(scale(given, {1, 2})),
            (std::vector<std::int32_t>{3, -3, 1073741823, -1073741823}));
}

RC_GTEST_PROP(OpsValues, AddToAddsInPlaceAndMayAddToItself, (std::uint64_t seed)) {
  CpuDevice device;
  const DType dtype = test::any_dtype();
  const auto rows = *rc::gen::inRange<std::int64_t>(0, 5);
  const Tensor a = keyed(device, dtype, {rows, 7}, KeyedRandom(seed));
  const Tensor b = keyed(device, dtype, {rows, 7}, KeyedRandom(seed).named("b"));
  Tensor inout = device.empty(dtype, {rows, 7});
  copy(a, inout);
  add_to(inout, b);
  RC_ASSERT(host_bytes(inout) == host_bytes(add(a, b)));
  copy(a, inout);
  add_to(inout, inout);
  RC_ASSERT(host_bytes(inout) == host_bytes(scale(a, {2, 1})));
}

RC_GTEST_PROP(OpsValues, AKeyedShardIsTheSliceOfTheWhole, (std::uint64_t seed)) {
  CpuDevice device;
  const DType dtype = test::any_dtype();
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, rows + 1);
  const auto end = *rc::gen::inRange<std::int64_t>(begin, rows + 1);
  const auto offset = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  const KeyedRandom random(seed);
  const Tensor whole = keyed(device, dtype, {rows, 5}, random, offset);
  const Tensor shard = keyed(device, dtype, {end - begin, 5}, random, offset + begin * 5);
  RC_ASSERT(host_bytes(whole.rows(begin, end)) == host_bytes(shard));
}

RC_GTEST_PROP(OpsValues, KeyedColumnsAreThoseOfTheWhole, (std::uint64_t seed)) {
  CpuDevice device;
  const DType dtype = test::any_dtype();
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, columns);
  const auto width = *rc::gen::inRange<std::int64_t>(1, columns - begin + 1);
  const KeyedRandom random(seed);
  const Tensor whole = keyed(device, dtype, {rows, columns}, random);
  const Tensor part = keyed(device, dtype, {rows, width}, random, begin, columns);
  RC_ASSERT(host_bytes(sim::columns(whole, begin, width)) == host_bytes(part));
}

TEST(OpsValues, KeyedValuesFillTheirRange) {
  CpuDevice device;
  const KeyedRandom random(7);
  const auto whole = values<std::int32_t>(keyed(device, DType::i32, {100000}, random));
  EXPECT_EQ(*std::min_element(whole.begin(), whole.end()), -1000);
  EXPECT_EQ(*std::max_element(whole.begin(), whole.end()), 1000);
  for (const double value : values<double>(keyed(device, DType::f64, {1000}, random))) {
    EXPECT_TRUE(-1 <= value && value < 1) << value;
  }
  for (const Field& value : values<Field>(keyed(device, DType::field, {1000}, random))) {
    for (std::size_t level = 0; level < kFieldLevels; ++level) {
      EXPECT_TRUE(0 <= value.residues[level] && value.residues[level] < kFieldDivisors.primes[level]);
      EXPECT_EQ(value.residues[level], std::floor(value.residues[level]));
    }
  }
}

}  // namespace
