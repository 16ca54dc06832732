// Proves that comparisons, choices by a mask and the largest of a row equal loops that say the same as their
// manuals, with NaN, infinities, zeros of both signs and ties among the elements.

#include "sim/tensor/comparison.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"
#include "tests/support/drawn_scalars.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;
using Ids = std::vector<std::int32_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Few values, so that many are equal.
std::vector<double> drawn_values(std::int64_t count) {
  std::vector<double> all(static_cast<std::size_t>(count));
  for (double& value : all) value = *rc::gen::element(-kInfinity, -2.0, -0.0, 0.0, 0.5, 3.0, kInfinity, kNan);
  return all;
}

/// The same values in a dtype, which holds them exactly.
Tensor in_dtype(Device& device, DType dtype, const Shape& shape, const std::vector<double>& given) {
  return cast(tensor_of(device, DType::f64, shape, given), dtype);
}

RC_GTEST_PROP(Comparison, IsThatOfDoubles, ()) {
  CpuDevice device;
  const auto count = *rc::gen::inRange<std::int64_t>(0, 40);
  const std::vector<double> a = drawn_values(count), b = drawn_values(count);
  Ids less, equal, greater;
  for (std::size_t i = 0; i < a.size(); ++i) {
    less.push_back(std::isless(a[i], b[i]) ? 1 : 0);
    greater.push_back(std::isgreater(a[i], b[i]) ? 1 : 0);
    equal.push_back(!std::isunordered(a[i], b[i]) && !std::islessgreater(a[i], b[i]) ? 1 : 0);
  }
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = in_dtype(device, dtype, {count}, a), y = in_dtype(device, dtype, {count}, b);
    RC_ASSERT(values<std::int32_t>(compare(sim::Comparison::less, x, y)) == less);
    RC_ASSERT(values<std::int32_t>(compare(sim::Comparison::equal, x, y)) == equal);
    RC_ASSERT(values<std::int32_t>(compare(sim::Comparison::greater, x, y)) == greater);
  }
}

/// In the field one of three holds, less and greater mirror each other, and max() is the greater one.
RC_GTEST_PROP(Comparison, OfTheFieldIsAnOrder, (std::uint64_t seed)) {
  CpuDevice device;
  const KeyedRandom random(seed);
  const auto a = test::drawn_scalars<Field>(random.named("a"), 30);
  auto b = test::drawn_scalars<Field>(random.named("b"), 30);
  b[3] = a[3];
  const Tensor x = tensor_of(device, DType::field, {30}, a), y = tensor_of(device, DType::field, {30}, b);
  const Ids less = values<std::int32_t>(compare(sim::Comparison::less, x, y));
  const Ids equal = values<std::int32_t>(compare(sim::Comparison::equal, x, y));
  const Ids greater = values<std::int32_t>(compare(sim::Comparison::greater, x, y));
  RC_ASSERT(values<std::int32_t>(compare(sim::Comparison::less, y, x)) == greater);
  for (std::size_t i = 0; i < a.size(); ++i) {
    RC_ASSERT(less[i] + equal[i] + greater[i] == 1);
    RC_ASSERT((equal[i] == 1) == (a[i] == b[i]));
    RC_ASSERT(max(a[i], b[i]) == (greater[i] == 1 ? a[i] : b[i]));
  }
}

RC_GTEST_PROP(Comparison, AMaskSelectsElementsOfAnyDtype, (std::uint64_t seed)) {
  CpuDevice device;
  const auto count = *rc::gen::inRange<std::int64_t>(0, 40);
  Ids mask(static_cast<std::size_t>(count));
  for (std::int32_t& chosen : mask) chosen = *rc::gen::element(0, 1, -7);
  const Tensor chosen = tensor_of(device, DType::i32, {count}, mask);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::field, DType::i32}) {
    with_scalar(dtype, [&](auto scalar) {
      using Scalar = decltype(scalar);
      const auto a = test::drawn_scalars<Scalar>(KeyedRandom(seed).named("a"), count);
      const auto b = test::drawn_scalars<Scalar>(KeyedRandom(seed).named("b"), count);
      std::vector<Scalar> expected;
      for (std::size_t i = 0; i < mask.size(); ++i) expected.push_back(mask[i] != 0 ? a[i] : b[i]);
      const Tensor out =
          select(chosen, tensor_of(device, dtype, {count}, a), tensor_of(device, dtype, {count}, b));
      RC_ASSERT(host_bytes(out) == host_bytes(tensor_of(device, dtype, {count}, expected)));
    });
  }
}

RC_GTEST_PROP(Comparison, ARowsLargestIsItsFirst, ()) {
  CpuDevice device;
  const auto rows = *rc::gen::inRange<std::int64_t>(0, 5);
  const auto width = *rc::gen::inRange<std::int64_t>(0, 40);
  const std::vector<double> given = drawn_values(rows * width);
  Ids columns;
  std::vector<double> maxima;
  for (std::int64_t t = 0; t < rows; ++t) {
    columns.push_back(-1);
    maxima.push_back(-kInfinity);
    for (std::int64_t f = width; f-- > 0;) {  // from the last: the first of equal ones is taken at the end
      const double value = given[static_cast<std::size_t>(t * width + f)];
      if (!(value >= maxima.back())) continue;
      columns.back() = static_cast<std::int32_t>(f);
      maxima.back() = value;
    }
  }
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = in_dtype(device, dtype, {rows, width}, given);
    RC_ASSERT(values<std::int32_t>(argmax(x)) == columns);
    RC_ASSERT(values<double>(cast(row_max(x), DType::f64)) == maxima);
  }
}

RC_GTEST_PROP(Comparison, ARowsLargestInTheFieldIsThatOfMax, (std::uint64_t seed)) {
  CpuDevice device;
  auto given = test::drawn_scalars<Field>(KeyedRandom(seed), 21);
  given[17] = given[15];
  const Tensor x = tensor_of(device, DType::field, {3, 7}, given);
  const Ids columns = values<std::int32_t>(argmax(x));
  const std::vector<Field> maxima = values<Field>(row_max(x));
  for (std::size_t t = 0; t < 3; ++t) {
    const auto column = static_cast<std::size_t>(columns[t]);
    RC_ASSERT(given[7 * t + column] == maxima[t]);
    for (std::size_t f = 0; f < 7; ++f) {
      RC_ASSERT(max(given[7 * t + f], maxima[t]) == maxima[t]);
      RC_ASSERT(f >= column || !(given[7 * t + f] == maxima[t]));
    }
  }
}

/// The example of the manual: the two best experts of each token.
TEST(Comparison, ChoosesTheTwoBestOfARow) {
  CpuDevice device;
  const Tensor scores = in_dtype(device, DType::f32, {3, 4}, {1, 5, 5, 2, 9, 0, -1, 3, -4, -3, -2, -1});
  const Tensor identity =
      in_dtype(device, DType::f32, {4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const Tensor ones = filled(device, DType::f32, {3, 4}, 1);
  const Tensor lowest = filled(device, DType::f32, {3, 4}, -kInfinity);
  const Tensor first = argmax(scores);
  const Tensor rest =
      select(compare(sim::Comparison::equal, lookup(identity, first, 0), ones), lowest, scores);
  EXPECT_EQ(values<std::int32_t>(first), (Ids{1, 0, 3}));
  EXPECT_EQ(values<std::int32_t>(argmax(rest)), (Ids{2, 3, 2}));
}

TEST(Comparison, RefusesWhatDoesNotFit) {
  CpuDevice device;
  const Tensor x = filled(device, DType::f32, {2, 3}, 1), y = filled(device, DType::f32, {3, 2}, 1);
  const Tensor mask = filled(device, DType::i32, {2, 3}, 1), none;
  const auto code = [](const auto& operation) { return test::refusal_code(operation); };
  EXPECT_EQ(code([&] { compare(sim::Comparison::less, x, y); }), "shape_mismatch");
  EXPECT_EQ(code([&] { compare(sim::Comparison::less, x, mask); }), "dtype_mismatch");
  EXPECT_EQ(code([&] { compare(sim::Comparison::less, none, x); }), "null_tensor");
  EXPECT_EQ(code([&] { compare(sim::Comparison::less, mask, mask); }), "none");
  EXPECT_EQ(code([&] { select(x, x, x); }), "bad_dtype");
  EXPECT_EQ(code([&] { select(mask, x, y); }), "shape_mismatch");
  EXPECT_EQ(code([&] { select(mask, y, y); }), "shape_mismatch");
  EXPECT_EQ(code([&] { select(mask, mask, mask); }), "none");
  EXPECT_EQ(code([&] { argmax(mask); }), "bad_dtype");
  EXPECT_EQ(code([&] { argmax(filled(device, DType::f32, {}, 1)); }), "shape_mismatch");
  EXPECT_EQ(code([&] { row_max(filled(device, DType::f32, {}, 1)); }), "shape_mismatch");
}

}  // namespace
