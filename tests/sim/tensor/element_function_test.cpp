// Proves that a function of an author is computed element by element, in the arithmetic that its manual says.

#include "sim/tensor/element_function.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/base/elementary.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/float_arithmetic.h"
#include "tests/support/drawn_scalars.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;

/// x^2 e^x, whose steps round differently in each arithmetic.
ElementFunction bent() {
  return element_function(
      "bent", [](auto x) { return x * x * elementary::exp(x); },
      [](auto x) { return (2 + x) * x * elementary::exp(x); });
}

template <typename Scalar>
void expect_bent(CpuDevice& device, DType dtype, std::uint64_t seed, std::int64_t count) {
  const Arithmetic<Scalar> number;
  const auto given = test::drawn_scalars<Scalar>(KeyedRandom(seed).named("x"), count);
  const auto slopes = test::drawn_scalars<Scalar>(KeyedRandom(seed).named("g"), count);
  std::vector<Scalar> expected, backward;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto x = number.load(given[i]);
    expected.push_back(number.store(x * x * elementary::exp(x)));
    backward.push_back(number.store(number.load(slopes[i]) * ((2 + x) * x * elementary::exp(x))));
  }
  const Tensor x = tensor_of(device, dtype, {count}, given), grad = tensor_of(device, dtype, {count}, slopes);
  RC_ASSERT(host_bytes(apply(bent(), x)) == host_bytes(tensor_of(device, dtype, {count}, expected)));
  RC_ASSERT(host_bytes(apply_backward(bent(), x, grad)) ==
            host_bytes(tensor_of(device, dtype, {count}, backward)));
}

RC_GTEST_PROP(ElementFunction, IsComputedInTheTypeOfItsArgument, (std::uint64_t seed)) {
  CpuDevice device;
  const auto count = *rc::gen::inRange<std::int64_t>(0, 40);
  expect_bent<double>(device, DType::f64, seed, count);
  expect_bent<float>(device, DType::f32, seed, count);
  expect_bent<bfloat16>(device, DType::bf16, seed, count);
}

RC_GTEST_PROP(ElementFunction, IsAKeyedFunctionInTheField, (std::uint64_t seed)) {
  CpuDevice device(seed);
  const auto given = test::drawn_scalars<Field>(KeyedRandom(seed).named("x"), 20);
  const auto slopes = test::drawn_scalars<Field>(KeyedRandom(seed).named("g"), 20);
  const Tensor x = tensor_of(device, DType::field, {20}, given);
  const Tensor grad = tensor_of(device, DType::field, {20}, slopes);
  const std::vector<Field> applied = values<Field>(apply(bent(), x));
  const std::vector<Field> backward = values<Field>(apply_backward(bent(), x, grad));
  for (std::size_t i = 0; i < given.size(); ++i) {
    RC_ASSERT(applied[i] == device.tower().keyed("bent", given[i]));
    RC_ASSERT(backward[i] == slopes[i] * device.tower().keyed("bent_derivative", given[i]));
  }
}

TEST(ElementFunction, RefusesOneWithoutNameOrPart) {
  CpuDevice device;
  const Tensor x = filled(device, DType::f32, {2}, 1), ids = filled(device, DType::i32, {2}, 1);
  ElementFunction nameless = bent(), partly = bent();
  nameless.name = "";
  partly.derivative_of_f32 = nullptr;
  EXPECT_EQ(test::refusal_code([&] { apply(nameless, x); }), "bad_function");
  EXPECT_EQ(test::refusal_code([&] { apply_backward(partly, x, x); }), "bad_function");
  EXPECT_EQ(test::refusal_code([&] { apply(bent(), ids); }), "bad_dtype");
  EXPECT_EQ(test::refusal_code([&] { apply_backward(bent(), x, filled(device, DType::f32, {3}, 1)); }),
            "shape_mismatch");
  EXPECT_EQ(test::refusal_code([&] { apply(bent(), x); }), "none");
}

}  // namespace
