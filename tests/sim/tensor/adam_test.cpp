// Proves that squares are added in the order that the manual of add_sum_of_squares states.

#include "sim/tensor/adam.h"

#include <cmath>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;

template <typename Sum>
Sum chain(Sum sum, const std::vector<Sum>& x, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) sum = std::fma(x[i], x[i], sum);
  return sum;
}

template <typename Sum>
Sum in_stated_order(Sum sum, const std::vector<Sum>& x) {
  const std::size_t length = kSquaresOfAChain;
  std::size_t done = 0;
  if (x.size() >= 2 * length) {
    for (; done + length <= x.size(); done += length) sum = sum + chain(Sum{}, x, done, done + length);
  }
  return chain(sum, x, done, x.size());
}

template <typename Sum>
void expect_stated_order(DType dtype, std::int64_t count, const KeyedRandom& random) {
  CpuDevice device;
  const Tensor x = keyed(device, dtype, {count}, random);
  Tensor sum = keyed(device, sum_dtype(dtype), {1}, random.named("sum"));
  const Sum before = test::values<Sum>(sum).front();
  add_sum_of_squares(x, sum);
  const auto exact = test::values<Sum>(cast(x, sum_dtype(dtype)));
  RC_ASSERT(test::values<Sum>(sum).front() == in_stated_order(before, exact));
}

RC_GTEST_PROP(SumOfSquares, HasTheStatedOrder, ()) {
  const KeyedRandom random(*rc::gen::arbitrary<std::uint64_t>());
  const auto edges = rc::gen::element<std::int64_t>(0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 5120);
  const auto count = *rc::gen::oneOf(edges, rc::gen::inRange<std::int64_t>(0, 5000));
  expect_stated_order<double>(DType::f64, count, random);
  expect_stated_order<float>(DType::f32, count, random);
  expect_stated_order<float>(DType::bf16, count, random);
}

}  // namespace
