// Proves rung 04 of the GPU ladder: products of matrices.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "gpu/device/gpu_device.h"
#include "sim/tensor/checks.h"
#include "tests/gpu/both_devices.h"

namespace {

using namespace sim;
using test::drawn;
using Tensors = std::vector<Tensor>;

/// Draws a side that is next to the size of a tile as often as not.
std::int64_t drawn_side() {
  const auto small = *rc::gen::inRange<std::int64_t>(0, 40);
  const auto edge = *rc::gen::element<std::int64_t>(0, 1, 63, 64, 65, 127, 128, 129, 140);
  return *rc::gen::element(small, edge);
}

struct Product {
  DType dtype, out_dtype;
  std::int64_t batches, rows, columns, terms;
  bool a_transposed, b_transposed, accumulate;
};

Product drawn_product() {
  Product p{};
  p.dtype = test::drawn_float();
  p.out_dtype = p.dtype == DType::bf16 && *rc::gen::arbitrary<bool>() ? DType::f32 : p.dtype;
  p.batches = *rc::gen::inRange<std::int64_t>(1, 4);
  p.rows = drawn_side();
  p.columns = drawn_side();
  p.terms = drawn_side();
  p.a_transposed = *rc::gen::arbitrary<bool>();
  p.b_transposed = *rc::gen::arbitrary<bool>();
  p.accumulate = *rc::gen::arbitrary<bool>();
  return p;
}

std::vector<test::Given> operands(const Product& p, const KeyedRandom& random, bool extremes) {
  const Shape a = p.a_transposed ? Shape{p.batches, p.terms, p.rows} : Shape{p.batches, p.rows, p.terms};
  const Shape b =
      p.b_transposed ? Shape{p.batches, p.columns, p.terms} : Shape{p.batches, p.terms, p.columns};
  return {drawn(p.dtype, a, random.named("a"), extremes), drawn(p.dtype, b, random.named("b"), extremes),
          drawn(p.out_dtype, {p.batches, p.rows, p.columns}, random.named("out"), extremes)};
}

TEST(Gpu04Matmul, OneChainAnOutput) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("04 matmul", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const Product p = drawn_product();
    const KeyedRandom random(*rc::gen::arbitrary<std::uint64_t>());
    const std::string difference =
        both.difference(operands(p, random, *rc::gen::arbitrary<bool>()), [&](Device& device, Tensors& in) {
          device.matmul(in[0], p.a_transposed, in[1], p.b_transposed, in[2], p.accumulate);
          return Tensors{in[2]};
        });
    RC_ASSERT(difference == "");
  }));
}

// A sum of zeros keeps the sign that it began with, so nothing may be added beyond the terms.
TEST(Gpu04Matmul, NothingIsAddedBeyondTheTerms) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("04 matmul of -0", gpu.device);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (std::int64_t terms = 0; terms < 20; ++terms) {
      const std::string difference = both.difference({}, [&](Device& device, Tensors&) {
        Tensor a = device.empty(dtype, {3, terms});
        Tensor b = device.empty(dtype, {terms, 5});
        Tensor out = device.empty(dtype, {3, 5});
        device.fill(a, -0.0);
        device.fill(b, 1);
        device.fill(out, -0.0);
        device.matmul(a, false, b, false, out, true);
        return Tensors{out};
      });
      EXPECT_EQ(difference, "") << terms;
    }
  }
}

// The sums of these whole numbers are exact, so every order gives the same bits, also that of the vendor.
TEST(Gpu04Matmul, TheVendorsProductOfWholeNumbers) {
  GPU_OR_SKIP(exact);
  test::BothDevices both("04 matmul of the vendor, whole numbers",
                         gpu::make_gpu_device({.mode = gpu::GpuMode::vendor}));
  EXPECT_TRUE(rc::check([&] {
    const Product p = drawn_product();
    const KeyedRandom random(*rc::gen::arbitrary<std::uint64_t>());
    std::vector<test::Given> whole = operands(p, random, false);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      whole[i] = test::drawn_ids(whole[i].shape, random.named(std::to_string(i)), 1, 3);
    }
    const std::string difference = both.difference(whole, [&](Device& device, Tensors& in) {
      const auto as = [&](const Tensor& from, DType dtype) {
        Tensor to = device.empty(dtype, from.shape());
        device.cast(from, to);
        return to;
      };
      Tensor out = as(in[2], p.out_dtype);
      device.matmul(as(in[0], p.dtype), p.a_transposed, as(in[1], p.dtype), p.b_transposed, out,
                    p.accumulate);
      return Tensors{out};
    });
    RC_ASSERT(difference == "");
  }));
}

}  // namespace
