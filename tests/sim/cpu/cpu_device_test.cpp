// Proves that folds equal their definition, written plainly as one element and one member at a time.

#include "sim/cpu/cpu_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

#include "tests/support/drawn_scalars.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::bits_of;
using test::drawn_scalars;
using test::tensor_of;

template <typename Float>
Float plain(ReduceOp op, Float a, Float b) {
  if (op == ReduceOp::max) return std::fmax(a, b);
  if (op == ReduceOp::min) return std::fmin(a, b);
  return op == ReduceOp::product ? a * b : a + b;
}
bfloat16 plain(ReduceOp op, bfloat16 a, bfloat16 b) {
  return to_bfloat16(plain(op, to_float(a), to_float(b)));
}
std::int32_t plain(ReduceOp op, std::int32_t a, std::int32_t b) {
  if (op == ReduceOp::max) return std::max(a, b);
  if (op == ReduceOp::min) return std::min(a, b);
  const std::int64_t wide = op == ReduceOp::product ? std::int64_t{a} * b : std::int64_t{a} + b;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(wide));  // keeps the low 32 bits
}
Field plain(ReduceOp op, const Field& a, const Field& b) {
  if (op == ReduceOp::max) return max(a, b);
  if (op == ReduceOp::min) return min(a, b);
  Field result;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const double x = a.residues[level];
    const double y = b.residues[level];
    const double wide = op == ReduceOp::product ? x * y : x + y;
    result.residues[level] = std::fmod(wide, static_cast<double>(kFieldPrimes[level]));  // exact
  }
  return result;
}

/// Returns x * (m / n).
double share(double x, int m, int n) { return x * (static_cast<double>(m) / n); }
float share(float x, int m, int n) { return x * (static_cast<float>(m) / static_cast<float>(n)); }
bfloat16 share(bfloat16 x, int m, int n) { return to_bfloat16(share(to_float(x), m, n)); }
std::int32_t share(std::int32_t x, int m, int n) {
  return static_cast<std::int32_t>(std::int64_t{x} * m / n);
}
Field share(const Field& x, int m, int n) { return x * (Field::of(m) / Field::of(n)); }

/// A retired level is a NaN. Kernels say nothing about the bits of a NaN, so all NaNs are made the same here.
template <typename Scalar>
std::vector<Scalar> with_plain_nans(std::vector<Scalar> values) {
  if constexpr (std::is_same_v<Scalar, Field>) {
    for (Field& value : values) {
      for (double& residue : value.residues) {
        if (residue != residue) residue = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }
  return values;
}

struct FoldCase {
  ReduceOp op;
  int numerator, denominator;  // of the factor of the inputs, not 0: a maximum of 0 and -0 is either
  std::vector<FoldSegment> segments;
  int members;
  std::int64_t count;
};

/// Draws up to three segments, in either order, that cover the elements or leave a gap. More than a
/// block of 8 KiB is 4,097 elements of bf16 and 257 of the field.
FoldCase any_case() {
  FoldCase drawn;
  drawn.op =
      *rc::gen::element(ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product, ReduceOp::average);
  const bool has_factor = *rc::gen::arbitrary<bool>();
  drawn.numerator = has_factor ? *rc::gen::element(-3, -2, -1, 1, 2, 3) : 1;
  drawn.denominator = has_factor ? *rc::gen::inRange(1, 7) : 1;
  drawn.members = *rc::gen::inRange(1, 7);
  drawn.count = *rc::gen::element<std::int64_t>(0, 1, 2, 33, 256, 257, 1024, 1027, 2049, 4096, 4097, 8195);
  std::vector<std::int64_t> cuts = {0, *rc::gen::inRange<std::int64_t>(0, drawn.count + 1),
                                    *rc::gen::inRange<std::int64_t>(0, drawn.count + 1), drawn.count};
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i < 3; ++i) {
    drawn.segments.push_back({cuts[i], cuts[i + 1], *rc::gen::inRange<std::int64_t>(0, drawn.members)});
  }
  if (*rc::gen::inRange(0, 3) == 0) drawn.segments.erase(drawn.segments.begin() + 1);
  if (*rc::gen::inRange(0, 2) == 0) std::reverse(drawn.segments.begin(), drawn.segments.end());
  return drawn;
}

/// Returns what the fold makes, by definition, of an output that held `before`.
template <typename Scalar>
std::vector<Scalar> by_definition(const FoldCase& fold, const std::vector<std::vector<Scalar>>& given,
                                  std::vector<Scalar> before) {
  for (const FoldSegment& segment : fold.segments) {
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto member = [&](std::int64_t k) {
        return share(given[static_cast<std::size_t>((segment.first + k) % fold.members)][at], fold.numerator,
                     fold.denominator);
      };
      Scalar value = member(0);
      for (std::int64_t k = 1; k < fold.members; ++k) value = plain(fold.op, value, member(k));
      before[at] = fold.op == ReduceOp::average ? share(value, 1, fold.members) : value;
    }
  }
  return before;
}

template <typename Scalar>
void expect_fold_by_definition(DType dtype) {
  CpuDevice device;
  const FoldCase fold = any_case();
  const KeyedRandom random(*rc::gen::arbitrary<std::uint64_t>());
  std::vector<std::vector<Scalar>> given;
  std::vector<Tensor> inputs;
  for (int member = 0; member < fold.members; ++member) {
    given.push_back(drawn_scalars<Scalar>(random.named(std::to_string(member)), fold.count));
    // The input does not begin at the start of its storage.
    const Tensor roomy = device.empty(dtype, {fold.count + 3});
    inputs.push_back(roomy.rows(3, fold.count + 3));
    device.from_host(std::as_bytes(std::span(given.back())), inputs.back());
  }
  const std::vector<Scalar> before = drawn_scalars<Scalar>(random.named("before"), fold.count);
  std::vector<Tensor> outputs = {tensor_of(device, dtype, {fold.count}, before)};
  std::vector<std::vector<Scalar>> held = {before};
  for (int member = 0; member < fold.members; ++member) {  // some inputs are also outputs, in place
    if (*rc::gen::arbitrary<bool>()) continue;
    outputs.push_back(inputs[static_cast<std::size_t>(member)]);
    held.push_back(given[static_cast<std::size_t>(member)]);
  }
  const Reduction reduction(fold.op, {fold.numerator, fold.denominator});
  device.fold(reduction, pointers_to(inputs), fold.segments, pointers_to(outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto expected = with_plain_nans(by_definition(fold, given, held[i]));
    RC_ASSERT(bits_of(with_plain_nans(test::values<Scalar>(outputs[i]))) == bits_of(expected));
  }
}

RC_GTEST_PROP(CpuDevice, FoldsByDefinition, ()) {
  const DType dtype = test::any_dtype();
  with_scalar(dtype, [&](auto scalar) { expect_fold_by_definition<decltype(scalar)>(dtype); });
}

// Copies of 4 MiB and more go past the caches.
TEST(CpuDevice, ALargeFoldOfOneInputIsACopy) {
  CpuDevice device;
  constexpr std::int64_t kCount = 1'100'003;
  std::vector<bfloat16> given(kCount), other(kCount);
  for (std::size_t i = 0; i < given.size(); ++i) given[i].bits = static_cast<std::uint16_t>(i * 7 % 65'521);
  const Tensor input = tensor_of(device, DType::bf16, {kCount}, given);
  const Tensor output = tensor_of(device, DType::bf16, {kCount}, other);
  const Tensor outputs[] = {input, output};
  const FoldSegment segment{.begin = 5, .end = kCount - 7};
  device.fold(ReduceOp::sum, pointers_to({&input, 1}), {&segment, 1}, pointers_to(outputs));
  std::copy(given.begin() + 5, given.end() - 7, other.begin() + 5);
  EXPECT_TRUE(bits_of(test::values<bfloat16>(input)) == bits_of(given));
  EXPECT_TRUE(bits_of(test::values<bfloat16>(output)) == bits_of(other));
}

/// Folds all pairs of the given values. The callers pass, for every float dtype, numbers, both zeros,
/// infinities, and NaNs of several payloads and both signs.
template <typename Scalar, typename Bits>
void expect_no_order(DType dtype, const std::vector<Bits>& bits) {
  CpuDevice device;
  const auto count = static_cast<std::int64_t>(bits.size());
  std::vector<Bits> left;
  std::vector<Bits> right;
  for (const Bits a : bits) {
    for (const Bits b : bits) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const Tensor a = tensor_of(device, dtype, {count * count}, left);
  const Tensor b = tensor_of(device, dtype, {count * count}, right);
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    const Tensor forth = combine(op, a, b);
    EXPECT_EQ(host_bytes(forth), host_bytes(combine(op, b, a))) << name_of(dtype) << name_of(op);
    // Each pair is also folded with a third value, in both groupings.
    const Tensor c = tensor_of(device, dtype, {count * count},
                               std::vector<Bits>(left.size(), bits[static_cast<std::size_t>(count - 1)]));
    EXPECT_EQ(host_bytes(combine(op, forth, c)), host_bytes(combine(op, a, combine(op, b, c))))
        << name_of(dtype) << name_of(op);
  }
}

TEST(CpuDevice, MaxAndMinHaveNoOrder) {
  expect_no_order<double, std::uint64_t>(
      DType::f64, {0, 1, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000,
                   0xfff0000000000000, 0x7ff8000000000001, 0xfff8000000000002, 0x7ff8000000000000});
  expect_no_order<float, std::uint32_t>(DType::f32, {0, 1, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                                     0xff800000, 0x7fc00001, 0xffc00002, 0x7fc00000});
  expect_no_order<bfloat16, std::uint16_t>(
      DType::bf16, {0, 1, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc1, 0xffc2, 0x7fc0});
}

TEST(CpuDevice, MaxAndMinPreferNumbersAndKnowSignedZeros) {
  CpuDevice device;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = tensor_of(device, DType::f64, {3}, std::vector<double>{nan, 0.0, -0.0});
  const Tensor b = tensor_of(device, DType::f64, {3}, std::vector<double>{-7.0, -0.0, -0.0});
  EXPECT_EQ(bits_of(test::values<double>(combine(ReduceOp::max, a, b))), bits_of<double>({-7.0, 0.0, -0.0}));
  EXPECT_EQ(bits_of(test::values<double>(combine(ReduceOp::min, a, b))), bits_of<double>({-7.0, -0.0, -0.0}));
}

// 1 + 2^-8 + 2^-8 is rounded back to 1 at every hop. A sum that is rounded only at the end would be 1 + 2^-7.
TEST(CpuDevice, BfloatsAreRoundedAtEveryHop) {
  CpuDevice device;
  std::vector<Tensor> inputs = {filled(device, DType::bf16, {1}, 1)};
  for (int i = 0; i < 2; ++i) inputs.push_back(filled(device, DType::bf16, {1}, 0x1p-8));
  const std::vector<Tensor> output = {device.empty(DType::bf16, {1})};
  const std::vector<FoldSegment> from_the_one = {{0, 1, 0}};
  const std::vector<FoldSegment> from_the_small = {{0, 1, 1}};
  device.fold(ReduceOp::sum, pointers_to(inputs), from_the_one, pointers_to(output));
  EXPECT_EQ(to_float(test::values<bfloat16>(output[0])[0]), 1.0F);
  device.fold(ReduceOp::sum, pointers_to(inputs), from_the_small, pointers_to(output));
  EXPECT_EQ(to_float(test::values<bfloat16>(output[0])[0]), 1.0F + 0x1p-7F);
}

TEST(CpuDevice, AnElementOfTheFieldIsNoNumberUntilItIsWritten) {
  const auto device = std::make_shared<CpuDevice>();
  { const Tensor used = filled(*device, DType::field, {4}, 1); }
  const Tensor unwritten = device->empty(DType::field, {4});  // the memory of `used`
  std::array<Field, 4> elements;
  device->to_host(unwritten, std::as_writable_bytes(std::span(elements)));
  for (const Field& element : elements) {
    for (std::size_t level = 0; level < kFieldLevels; ++level) EXPECT_FALSE(element.is_live(level));
  }
}

TEST(CpuDevice, TensorsOutliveTheirDevice) {
  Tensor kept;
  {
    CpuDevice device;
    const std::shared_ptr<Device> rank = device.for_rank(3);
    kept = filled(*rank, DType::i32, {4000}, 7).rows(1000, 4000);
  }
  const auto* values = reinterpret_cast<const std::int32_t*>(kept.data());
  EXPECT_EQ(std::count(values, values + kept.count(), 7), 3000);
}

}  // namespace
