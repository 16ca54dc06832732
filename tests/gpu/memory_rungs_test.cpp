// Proves rungs 01 to 03 of the GPU ladder: memory, kernels that move values, and the first arithmetic.

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "gpu/device/gpu_device.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "tests/gpu/both_devices.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::drawn;
using test::drawn_random;
using test::drawn_size;
using Tensors = std::vector<Tensor>;

DType drawn_dtype() { return *rc::gen::element(DType::f64, DType::f32, DType::bf16, DType::i32); }

TEST(Gpu01Allocate, BlocksDoNotOverlapAndAreHandedOutAgain) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("01 allocate", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    Tensors held;
    std::vector<std::int32_t> marks;
    const int steps = *rc::gen::inRange(1, 40);
    for (int step = 0; step < steps; ++step) {
      if (!held.empty() && *rc::gen::inRange(0, 3) == 0) {
        const auto place = *rc::gen::inRange<std::size_t>(0, held.size());
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(place));
        marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(place));
      }
      const auto rank = gpu.device->for_rank(*rc::gen::inRange(0, 3));
      held.push_back(filled(*rank, DType::i32, {drawn_size(3000)}, step));
      marks.push_back(step);
    }
    for (std::size_t i = 0; i < held.size(); ++i) {
      const auto values = test::values<std::int32_t>(held[i]);
      RC_ASSERT(std::count(values.begin(), values.end(), marks[i]) == held[i].count());
      both.count(held[i].count());
    }
  }));
}

TEST(Gpu01Allocate, RefusesWhatItDoesNotHave) {
  GPU_OR_SKIP(gpu);
  EXPECT_EQ(test::refusal_code([&] {
              gpu.device->empty(DType::f32, {1, std::int64_t{1} << 42});
            }),
            "cuda_failed");
  EXPECT_EQ(test::refusal_code([&] { gpu.device->empty(DType::field, {1}); }), "cuda_dtype");
}

TEST(Gpu01Allocate, RefusesAGpuThatIsNotThere) {
  EXPECT_EQ(test::refusal_code([] { gpu::make_gpu_device({.ordinal = 1000}); }), "cuda_unavailable");
}

TEST(Gpu02Copy, ValuesMoveAsTheyAre) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("02 copy", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const auto x = drawn(drawn_dtype(), {drawn_size(40), drawn_size(70)}, random, true);
    const auto begin = *rc::gen::inRange<std::int64_t>(0, x.shape[0] + 1);
    const auto end = *rc::gen::inRange<std::int64_t>(begin, x.shape[0] + 1);
    const auto first = *rc::gen::inRange<std::int64_t>(0, x.shape[1] + 1);
    const auto columns = *rc::gen::inRange<std::int64_t>(0, x.shape[1] - first + 1);
    const std::string difference = both.difference({x}, [&](Device& device, Tensors& in) {
      const Tensor slice = in[0].rows(begin, end);
      Tensor copied = device.empty(x.dtype, slice.shape());
      device.copy(slice, copied);
      Tensor filled_with = device.empty(x.dtype, {7});
      device.fill(filled_with, -3);
      Tensor part = filled(device, x.dtype, {x.shape[0], columns + 5}, 2);
      device.copy_columns(in[0], first, part, 3, columns);
      Tensor gone = device.empty(x.dtype, {x.shape[0]});
      device.poison(gone);
      return Tensors{in[0], copied, filled_with, part, gone};
    });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu02Copy, PermutesAndCasts) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("02 permute and cast", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = drawn_dtype();
    const auto x = drawn(dtype, {drawn_size(5), drawn_size(6), drawn_size(7), drawn_size(18)}, random, true);
    std::array<int, 4> order = {0, 1, 2, 3};
    for (std::size_t i = 0; i < 4; ++i) std::swap(order[i], order[*rc::gen::inRange<std::size_t>(i, 4)]);
    const std::string difference = both.difference({x}, [&](Device& device, Tensors& in) {
      const auto size = [&](std::size_t i) { return x.shape[static_cast<std::size_t>(order[i])]; };
      Tensors out = {device.empty(dtype, {size(0), size(1), size(2), size(3)})};
      device.permute(in[0], order, out[0]);
      for (const DType to : {DType::f64, DType::f32, DType::bf16}) {
        out.push_back(device.empty(to, x.shape));
        device.cast(in[0], out.back());
      }
      return out;
    });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu03Add, ReductionsOfTwoAndScaling) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("03 add", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = drawn_dtype();
    const Shape shape = {drawn_size(2000)};
    const auto op = *rc::gen::element(ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product);
    const Ratio ratio = {*rc::gen::inRange<std::int64_t>(-1000, 1000),
                         *rc::gen::inRange<std::int64_t>(1, 1000)};
    const std::string difference =
        both.difference({drawn(dtype, shape, random, true), drawn(dtype, shape, random.named("b"), true)},
                        [&](Device& device, Tensors& in) {
                          Tensors out = {device.empty(dtype, shape), device.empty(dtype, shape)};
                          device.combine(op, in[0], in[1], out[0]);
                          device.scale(in[0], ratio, out[1]);
                          device.combine(op, in[0], in[1], in[1]);
                          out.push_back(in[1]);
                          return out;
                        });
    RC_ASSERT(difference == "");
  }));
}

TEST(Gpu03Add, ABiasToEveryRow) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("03 add bias", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const KeyedRandom random = drawn_random();
    const DType dtype = test::drawn_float();
    const Shape shape = {drawn_size(40), drawn_size(70)};
    const std::string difference = both.difference(
        {drawn(dtype, shape, random, true), drawn(dtype, {shape[1]}, random.named("bias"), true)},
        [&](Device& device, Tensors& in) {
          Tensors out = {device.empty(dtype, shape)};
          device.add_bias(in[0], in[1], out[0]);
          return out;
        });
    RC_ASSERT(difference == "");
  }));
}

}  // namespace
