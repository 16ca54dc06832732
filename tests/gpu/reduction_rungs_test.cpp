// Proves rung 05 of the GPU ladder: kernels that add up or take the largest, which are folds, columns,
// and rows of sixteen lanes.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sim/tensor/checks.h"
#include "tests/gpu/both_devices.h"

namespace {

using namespace sim;
using test::drawn;
using test::drawn_bool;
using test::drawn_random;
using test::drawn_size;
using Tensors = std::vector<Tensor>;

TEST(Gpu05Reduce, FoldsOfManyInputs) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 fold", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = *rc::gen::element(DType::f64, DType::f32, DType::bf16, DType::i32);
    const auto op =
        *rc::gen::element(ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product, ReduceOp::average);
    const sim::Reduction reduction(
        op, drawn_bool() ? Ratio{} : Ratio{*rc::gen::element(-3, -2, -1, 1, 2, 3), *rc::gen::inRange(1, 7)});
    const auto members = *rc::gen::inRange<std::int64_t>(1, 9);
    const std::int64_t count = drawn_size(600);
    const auto shift = *rc::gen::inRange<std::int64_t>(0, 4);
    const auto cut = *rc::gen::inRange<std::int64_t>(0, count + 1);
    const auto first = *rc::gen::inRange<std::int64_t>(0, members);
    std::vector<test::Given> inputs;
    for (std::int64_t i = 0; i < members; ++i)
      inputs.push_back(drawn(dtype, {count + shift}, random.named(std::to_string(i)), true));
    const bool in_place = shift == 0 && drawn_bool();
    const std::string difference = both.difference(inputs, [&](Device& device, Tensors& in) {
      const FoldSegment segments[] = {{0, cut, first, shift}, {cut, count, 0, shift}};
      Tensors out = {device.empty(dtype, {count})};
      if (in_place) out.push_back(in.back());
      device.fold(reduction, sim::pointers_to(in), segments, sim::pointers_to(out));
      return out;
    });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu05Reduce, SumsOfColumns) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 column sums", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(40), drawn_size(70)};
    const std::string difference =
        both.difference({drawn(dtype, shape, random, drawn_bool()),
                         drawn(sum_dtype(dtype), {shape[1]}, random.named("sums"), drawn_bool())},
                        [&](Device& device, Tensors& in) {
                          device.add_column_sums(in[0], in[1]);
                          return Tensors{in[1]};
                        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu05Reduce, Softmax) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 softmax", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(5), 1 + drawn_size(12), 1 + drawn_size(60)};
    const auto divisor = *rc::gen::inRange<std::int64_t>(1, 130);
    const sim::SeenKeys keys{drawn_bool(), drawn_size(8) - 1};
    const bool extremes = drawn_bool();
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, extremes), drawn(dtype, shape, random.named("g"), extremes)},
        [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape), device.empty(dtype, shape)};
          device.softmax(in[0], divisor, keys, out[0]);
          device.softmax_backward(out[0], in[1], divisor, out[1]);
          device.softmax(in[0], divisor, keys, in[0]);
          out.push_back(in[0]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu05Reduce, SoftmaxOfParts) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 softmax of parts", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float(), sums = sum_dtype(dtype);
    const Shape shape = {drawn_size(5), 1 + drawn_size(12), 1 + drawn_size(60)};
    const std::int64_t rows = shape[0] * shape[1];
    const Shape outputs = {rows, 1 + drawn_size(40)};
    const auto divisor = *rc::gen::inRange<std::int64_t>(1, 130);
    const sim::SeenKeys keys{drawn_bool(), drawn_size(8) - 1};
    const bool extremes = drawn_bool();
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, extremes), drawn(dtype, shape, random.named("y"), extremes),
         drawn(dtype, shape, random.named("g"), extremes),
         drawn(sums, {rows}, random.named("means"), extremes),
         drawn(sums, outputs, random.named("a"), extremes),
         drawn(sums, outputs, random.named("b"), extremes)},
        [&](Device& device, Tensors& in) {
          Tensor p = device.empty(dtype, shape), stats = device.empty(sums, {2, rows});
          device.partial_softmax(in[0], divisor, keys, p, stats);
          Tensor q = device.empty(dtype, shape), stats_of_part = device.empty(sums, {2, rows});
          device.partial_softmax(in[1], divisor, keys, q, stats_of_part);
          device.merge_softmax(in[4], stats_of_part, in[5], stats);
          Tensor finished = device.empty(dtype, outputs);
          device.finish_softmax(in[5], stats, finished);
          Tensor again = device.empty(dtype, shape), grad = device.empty(dtype, shape);
          device.partial_softmax_backward(in[0], divisor, keys, stats, in[2], in[3], again, grad);
          return Tensors{p, q, stats_of_part, stats, in[5], finished, again, grad};
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu05Reduce, Norms) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 norms", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const DType sums = sum_dtype(dtype);
    const Shape shape = {drawn_size(30), 1 + drawn_size(70)};
    const Norm norm = *rc::gen::element(Norm::layer_norm, Norm::rms_norm);
    const bool has_bias = norm == Norm::layer_norm;
    const bool extremes = *rc::gen::inRange(0, 4) == 0;
    const Shape columns = {shape[1]};
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, extremes), drawn(dtype, columns, random.named("w"), extremes),
         drawn(dtype, columns, random.named("b"), extremes), drawn(dtype, shape, random.named("g"), extremes),
         drawn(sums, columns, random.named("gw"), false), drawn(sums, columns, random.named("gb"), false)},
        [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape), device.empty(sums, {2, shape[0]}),
                         device.empty(dtype, shape)};
          Tensor none;
          device.normalize(norm, in[0], in[1], has_bias ? in[2] : none, {1, 100000}, out[0], out[1]);
          device.normalize_backward(norm, in[0], in[1], out[1], in[3], out[2], in[4],
                                    has_bias ? in[5] : none);
          out.push_back(in[4]);
          out.push_back(in[5]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

// Few values, so that the largest is there more than once.
TEST(Gpu05Reduce, TheFirstOfEqualColumns) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 argmax", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(30), drawn_size(70)};
    const std::string difference =
        both.difference({test::drawn_ids(shape, random, -2, 2)}, [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape), device.empty(DType::i32, {shape[0]})};
          device.cast(in[0], out[0]);
          device.argmax(out[0], out[1]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu05Reduce, LargestOfRowsAndWhatIsNotFinite) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("05 row max, not finite", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const DType sums = sum_dtype(dtype);
    const Shape shape = {drawn_size(30), 1 + drawn_size(70)};
    const auto columns = *rc::gen::inRange<std::int64_t>(0, shape[1] + 1);
    const std::string difference =
        both.difference({drawn(dtype, shape, random, drawn_bool()), drawn(sums, shape, random, drawn_bool())},
                        [&](Device& device, Tensors& in) {
                          Tensors out = {device.empty(sums, {shape[0]}), device.empty(sums, {1}),
                                         device.empty(DType::i32, {shape[0]})};
                          device.row_max(in[0], columns, out[0]);
                          device.find_nonfinite(in[1], out[1]);
                          device.argmax(in[0], out[2]);
                          return out;
                        });
    RC_ASSERT(difference == "");
  }));
}

}  // namespace
