// Proves rungs 06 to 08 of the GPU ladder: exp and related functions, tables, and Adam.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sim/base/elementary.h"
#include "sim/tensor/adam.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/element_function.h"
#include "tests/gpu/both_devices.h"

namespace {

using namespace sim;
using test::drawn;
using test::drawn_bool;
using test::drawn_random;
using test::drawn_size;
using Tensors = std::vector<Tensor>;

constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu};

TEST(Gpu06Exp, ActivationsOfEveryMagnitude) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("06 exp, tanh, erf and their slopes", gpu.device);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const test::Given x = test::every_bfloat(dtype, KeyedRandom(seed));
      for (const Activation function : kActivations) {
        const std::string difference = both.difference({x}, [&](Device& device, Tensors& in) {
          Tensor one = device.empty(dtype, x.shape);
          device.fill(one, 1);
          Tensors out = {device.empty(dtype, x.shape), device.empty(dtype, x.shape)};
          device.activate(function, in[0], out[0]);
          device.activate_backward(function, in[0], one, out[1]);
          return out;
        });
        EXPECT_EQ(difference, "");
      }
    }
  }
}

// What an author writes runs on the host, whichever device has the tensors.
TEST(Gpu06Exp, FunctionsOfAnAuthor) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("06 functions of an author", gpu.device);
  const ElementFunction bent = element_function(
      "bent", [](auto x) { return x * x * elementary::exp(x); },
      [](auto x) { return (2 + x) * x * elementary::exp(x); });
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(9), drawn_size(70)};
    const bool extremes = drawn_bool();
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, extremes), drawn(dtype, shape, random.named("g"), extremes)},
        [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape), device.empty(dtype, shape)};
          device.apply(bent, in[0], out[0]);
          device.apply_backward(bent, in[0], in[1], out[1]);
          device.apply(bent, in[1], in[1]);
          out.push_back(in[1]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu06Exp, ComparisonsAndWhatTheySelect) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("06 comparisons", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(9), drawn_size(70)};
    const auto comparison = *rc::gen::element(Comparison::less, Comparison::equal, Comparison::greater);
    const test::Given a = drawn(dtype, shape, random, true);
    const test::Given b = drawn_bool() ? a : drawn(dtype, shape, random.named("b"), true);
    const test::Given ids = test::drawn_ids(shape, random.named("ids"), -1, 1);
    const std::string difference = both.difference({a, b, ids}, [&](Device& device, Tensors& in) {
      Tensors out = {device.empty(DType::i32, shape), device.empty(DType::i32, shape),
                     device.empty(dtype, shape), device.empty(DType::i32, shape)};
      device.compare(comparison, in[0], in[1], out[0]);
      device.compare(comparison, in[2], out[0], out[1]);
      device.select(out[0], in[0], in[1], out[2]);
      device.select(in[2], out[0], in[2], out[3]);
      return out;
    });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu06Exp, DropoutAndRotation) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("06 dropout, rotation", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(9), drawn_size(4), drawn_size(4), 2 * drawn_size(20)};
    const Shape angles = {shape[0], shape[3] / 2};
    const Ratio drop = {*rc::gen::inRange<std::int64_t>(0, 100), 100};
    const bool backward = drawn_bool();
    const bool extremes = drawn_bool();
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, extremes), drawn(dtype, angles, random.named("c"), extremes),
         drawn(dtype, angles, random.named("s"), extremes)},
        [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape), device.empty(dtype, shape)};
          device.dropout(in[0], random.named("mask"), drop, out[0]);
          device.rotate(in[0], in[1], in[2], backward, out[1]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu06Exp, LossOfTokens) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("06 cross-entropy", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const DType sums = sum_dtype(dtype);
    const std::int64_t tokens = drawn_size(30);
    const std::int64_t width = 1 + drawn_size(60);
    TokenLoss loss;
    loss.first_id = *rc::gen::inRange<std::int64_t>(0, 40);
    loss.columns = *rc::gen::inRange<std::int64_t>(1, width + 1);
    loss.vocabulary = loss.first_id + loss.columns + 3;
    loss.smoothing = {*rc::gen::element<std::int64_t>(0, 1, 3), 10};
    const bool extremes = drawn_bool();
    const std::string difference = both.difference(
        {drawn(dtype, {tokens, width}, random, extremes),
         test::drawn_ids({tokens}, random.named("targets"), -1, static_cast<std::int32_t>(loss.vocabulary)),
         drawn(sums, {tokens}, random.named("grad"), extremes)},
        [&](Device& device, Tensors& in) {
          const std::int64_t rows = loss.smoothing.numerator == 0 ? 2 : 3;
          Tensors out = {device.empty(sums, {tokens}), device.empty(sums, {tokens, width}),
                         device.empty(sums, {rows, tokens}), device.empty(sums, {tokens}),
                         device.empty(dtype, {tokens, width})};
          device.row_max(in[0], loss.columns, out[0]);
          device.token_parts(in[0], out[0], in[1], loss, out[1], out[2]);
          device.token_loss(out[2], in[1], loss, out[3]);
          device.token_loss_backward(out[1], out[2], in[1], loss, in[2], out[4]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu07Lookup, RowsOfATableAndTheirSums) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("07 lookup", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const std::int64_t rows = drawn_size(20);
    const std::int64_t columns = drawn_size(40);
    const std::int64_t tokens = drawn_size(60);
    const auto first_id = *rc::gen::inRange<std::int64_t>(0, 10);
    const std::string difference = both.difference(
        {drawn(dtype, {rows, columns}, random, true),
         test::drawn_ids({tokens}, random.named("ids"), -2, static_cast<std::int32_t>(first_id + rows + 2)),
         drawn(dtype, {tokens, columns}, random.named("rows"), drawn_bool()),
         drawn(sum_dtype(dtype), {rows, columns}, random.named("sums"), false)},
        [&](Device& device, Tensors& in) {
          Tensor out = device.empty(dtype, {tokens, columns});
          device.lookup(in[0], in[1], first_id, out);
          device.add_to_rows(in[2], in[1], first_id, in[3]);
          return Tensors{out, in[3]};
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu08Adam, SquaresInChains) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("08 sums of squares", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(5000)};
    const std::string difference =
        both.difference({drawn(dtype, shape, random, drawn_bool()),
                         drawn(sum_dtype(dtype), {1}, random.named("sum"), drawn_bool())},
                        [&](Device&, Tensors& in) {
                          add_sum_of_squares(in[0], in[1]);
                          return Tensors{in[1]};
                        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu08Adam, StepsAndClipping) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("08 Adam", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = *rc::gen::element(DType::f64, DType::f32);
    const Shape shape = {drawn_size(700)};
    AdamStep step;
    step.learning_rate = {*rc::gen::inRange<std::int64_t>(0, 50), 1000};
    step.weight_decay = {*rc::gen::element<std::int64_t>(0, 1, 7), 100};
    step.decoupled = drawn_bool();
    step.step = *rc::gen::inRange<std::int64_t>(1, 2000);
    const bool extremes = drawn_bool();
    std::vector<test::Given> inputs = {
        drawn(dtype, shape, random.named("g"), extremes), drawn(dtype, shape, random.named("p"), extremes),
        drawn(dtype, shape, random.named("m"), extremes), drawn(dtype, shape, random.named("v"), extremes),
        drawn(dtype, {1}, random.named("squares"), extremes)};
    const std::string difference = both.difference(inputs, [&](Device& device, Tensors& in) {
      Tensor factor = device.empty(dtype, {1});
      device.clip_factor(in[4], {1, 2}, factor);
      device.scale_by(in[0], factor);
      device.adam(in[0], step, in[1], in[2], in[3]);
      return Tensors{factor, in[0], in[1], in[2], in[3]};
    });
    RC_ASSERT(difference == "");
  }));
}

}  // namespace
