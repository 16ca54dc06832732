// Proves that kernels equal plain loops in every dtype, and what operations on tensors refuse.

#include "sim/tensor/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;

template <typename Work>
std::string code_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.refusal().code;
  }
  return "none";
}

constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::field, DType::i32};

template <typename Scalar>
bool same_bits(const Scalar& a, const Scalar& b) {
  return std::memcmp(&a, &b, sizeof(Scalar)) == 0;
}

/// One step of a fold, written plainly and for one scalar.
double step(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::max:
      return std::fmax(a, b);
    case ReduceOp::min:
      return std::fmin(a, b);
    case ReduceOp::product:
      return a * b;
    case ReduceOp::sum:
    case ReduceOp::average:
      break;
  }
  return a + b;
}
float step(ReduceOp op, float a, float b) {
  // A sum or product of two floats that is rounded to double and then to float is rounded only once in
  // effect, because 53 >= 2 * 24 + 2.
  return static_cast<float>(step(op, static_cast<double>(a), static_cast<double>(b)));
}
bfloat16 step(ReduceOp op, bfloat16 a, bfloat16 b) { return to_bfloat16(step(op, to_float(a), to_float(b))); }
std::int32_t step(ReduceOp op, std::int32_t a, std::int32_t b) {
  if (op == ReduceOp::max) return std::max(a, b);
  if (op == ReduceOp::min) return std::min(a, b);
  const std::int64_t wide = op == ReduceOp::product ? std::int64_t{a} * b : std::int64_t{a} + b;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(wide));
}
Field step(ReduceOp op, const Field& a, const Field& b) {
  if (op == ReduceOp::max) return max(a, b);
  if (op == ReduceOp::min) return min(a, b);
  return op == ReduceOp::product ? a * b : a + b;
}

RC_GTEST_PROP(CpuDevice, FoldIsTheLeftFoldOfItsSegments, ()) {
  CpuDevice device;
  const DType dtype = *rc::gen::elementOf(std::vector<DType>(std::begin(kAll), std::end(kAll)));
  const auto op = static_cast<ReduceOp>(*rc::gen::inRange(0, 4));
  const auto members = *rc::gen::inRange<std::int64_t>(1, 6);
  const auto count = *rc::gen::element<std::int64_t>(0, 1, 7, 500, 5000);
  const KeyedRandom random(*rc::gen::arbitrary<std::uint64_t>());
  const std::int64_t border = *rc::gen::inRange<std::int64_t>(0, count + 1);
  const std::vector<FoldSegment> segments = {{0, border, *rc::gen::inRange<std::int64_t>(0, members)},
                                             {border, count, *rc::gen::inRange<std::int64_t>(0, members)}};
  std::vector<Tensor> inputs;
  for (std::int64_t i = 0; i < members; ++i)
    inputs.push_back(keyed(device, dtype, {count}, random, i * count));
  with_scalar(dtype, [&](auto scalar) {
    using Scalar = decltype(scalar);
    std::vector<std::vector<Scalar>> given;
    for (const Tensor& input : inputs) given.push_back(values<Scalar>(input));
    const std::vector<Tensor> outputs = {inputs.back(),
                                         device.empty(dtype, {count})};  // the first is in place
    device.fold(op, pointers_to(inputs), segments, pointers_to(outputs));
    const std::vector<Scalar> out = values<Scalar>(outputs[0]);
    RC_ASSERT(host_bytes(outputs[0]) == host_bytes(outputs[1]));
    for (const FoldSegment& segment : segments) {
      for (std::int64_t i = segment.begin; i < segment.end; ++i) {
        const auto element = static_cast<std::size_t>(i);
        Scalar expected = given[static_cast<std::size_t>(segment.first)][element];
        for (std::int64_t k = 1; k < members; ++k) {
          expected =
              step(op, given[static_cast<std::size_t>((segment.first + k) % members)][element], expected);
        }
        RC_ASSERT(same_bits(out[element], expected));
      }
    }
  });
}

TEST(CpuDevice, AveragesAreScaledOnce) {
  CpuDevice device;
  const std::vector<FoldSegment> all = {{0, 1, 0}};
  const auto average = [&](DType dtype) {
    std::vector<Tensor> inputs;
    for (const double value : {1.0, 2.0, 4.0}) inputs.push_back(filled(device, dtype, {1}, value));
    const std::vector<Tensor> output = {device.empty(dtype, {1})};
    device.fold(ReduceOp::average, pointers_to(inputs), all, pointers_to(output));
    return output[0];
  };
  EXPECT_EQ(values<double>(average(DType::f64)), (std::vector<double>{7.0 * (1.0 / 3.0)}));
  EXPECT_EQ(values<float>(average(DType::f32)), (std::vector<float>{7.0F * (1.0F / 3.0F)}));
  EXPECT_EQ(values<bfloat16>(average(DType::bf16)),
            (std::vector<bfloat16>{to_bfloat16(7.0F * (1.0F / 3.0F))}));
  EXPECT_EQ(values<std::int32_t>(average(DType::i32)), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(values<Field>(average(DType::field)), (std::vector<Field>{Field::of(7) / Field::of(3)}));
}

TEST(CpuDevice, MaxAndMinDoNotDependOnOrder) {
  CpuDevice device;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto both_ways = [&](ReduceOp op, double a, double b) {
    const Tensor x = tensor_of(device, DType::f64, {1}, std::vector<double>{a});
    const Tensor y = tensor_of(device, DType::f64, {1}, std::vector<double>{b});
    EXPECT_EQ(host_bytes(combine(op, x, y)), host_bytes(combine(op, y, x)));
    return values<double>(combine(op, x, y))[0];
  };
  EXPECT_EQ(both_ways(ReduceOp::max, kNan, 1), 1);
  EXPECT_EQ(both_ways(ReduceOp::min, kNan, 1), 1);
  EXPECT_FALSE(std::signbit(both_ways(ReduceOp::max, 0.0, -0.0)));
  EXPECT_TRUE(std::signbit(both_ways(ReduceOp::min, 0.0, -0.0)));
}

RC_GTEST_PROP(Ops, AShardIsTheSliceOfTheWhole, (std::uint64_t seed)) {
  CpuDevice device;
  const DType dtype = *rc::gen::elementOf(std::vector<DType>(std::begin(kAll), std::end(kAll)));
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, rows);
  const KeyedRandom random = KeyedRandom(seed).named("weight");
  const Tensor whole = keyed(device, dtype, {rows, 3}, random);
  const Tensor shard = keyed(device, dtype, {rows - begin, 3}, random, begin * 3);
  RC_ASSERT(host_bytes(whole.rows(begin, rows)) == host_bytes(shard));
}

/// Rows of one element and rows of several batches of random numbers are among these.
RC_GTEST_PROP(Ops, AShardOfColumnsIsASliceOfTheWhole, (std::uint64_t seed)) {
  CpuDevice device;
  const DType dtype = *rc::gen::elementOf(std::vector<DType>(std::begin(kAll), std::end(kAll)));
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 80);
  const auto width = *rc::gen::inRange<std::int64_t>(1, 300);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, width);
  const auto columns = *rc::gen::inRange<std::int64_t>(1, width - begin + 1);
  const KeyedRandom random = KeyedRandom(seed).named("weight");
  const Tensor shard = keyed(device, dtype, {rows, columns}, random, begin, width);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Tensor alone = keyed(device, dtype, {columns}, random, row * width + begin);
    RC_ASSERT(host_bytes(shard.rows(row, row + 1)) == host_bytes(alone));
  }
  const Tensor whole = keyed(device, dtype, {rows, width}, random);
  const std::vector<std::byte> of_whole = host_bytes(whole), of_shard = host_bytes(shard);
  const auto size = static_cast<std::size_t>(size_of(dtype));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from =
        of_whole.begin() + static_cast<std::ptrdiff_t>((row * width + begin) * std::int64_t(size));
    const auto to = of_shard.begin() + static_cast<std::ptrdiff_t>(row * columns * std::int64_t(size));
    RC_ASSERT(std::equal(to, to + static_cast<std::ptrdiff_t>(columns * std::int64_t(size)), from));
  }
}

TEST(Ops, Arithmetic) {
  CpuDevice device;
  for (const DType dtype : kAll) {
    const Tensor two = filled(device, dtype, {3}, 2);
    const Tensor three = filled(device, dtype, {3}, 3);
    EXPECT_EQ(host_bytes(add(two, three)), host_bytes(filled(device, dtype, {3}, 5)));
    EXPECT_EQ(host_bytes(combine(ReduceOp::product, two, three)), host_bytes(filled(device, dtype, {3}, 6)));
    EXPECT_EQ(host_bytes(scale(two, {5, 2})), host_bytes(filled(device, dtype, {3}, 5)));
    Tensor sum = filled(device, dtype, {3}, 1);
    add_to(sum, two);
    EXPECT_EQ(host_bytes(sum), host_bytes(three));
    copy(two, sum);
    EXPECT_EQ(host_bytes(sum), host_bytes(two));
    EXPECT_EQ(host_bytes(cast(filled(device, DType::i32, {3}, 2), dtype)), host_bytes(two));
  }
  EXPECT_EQ(values<bfloat16>(cast(filled(device, DType::f64, {1}, 257), DType::bf16))[0],
            to_bfloat16(256.0F));
}

TEST(Ops, WhatIsRefused) {
  CpuDevice device;
  CpuDevice other;
  Tensor x = filled(device, DType::f32, {2, 3}, 1);
  EXPECT_EQ(code_of([&] { add(x, Tensor()); }), "null_tensor");
  EXPECT_EQ(code_of([&] { scale(Tensor(), {1, 2}); }), "null_tensor");
  EXPECT_EQ(code_of([&] { Tensor().rows(0, 1); }), "null_tensor");
  EXPECT_EQ(code_of([&] { Tensor().flat(); }), "null_tensor");
  EXPECT_EQ(code_of([&] { add(x, filled(other, DType::f32, {2, 3}, 1)); }), "wrong_device");
  EXPECT_EQ(code_of([&] { add(x, filled(device, DType::f32, {3, 2}, 1)); }), "shape_mismatch");
  EXPECT_EQ(code_of([&] { add(x, filled(device, DType::f64, {2, 3}, 1)); }), "dtype_mismatch");
  EXPECT_EQ(code_of([&] { filled(device, DType::i32, {1}, 1.5); }), "not_whole");
  EXPECT_EQ(code_of([&] { filled(device, DType::field, {1}, 1e300); }), "not_whole");
  EXPECT_EQ(code_of([&] { filled(device, DType::i32, {1}, std::numeric_limits<double>::quiet_NaN()); }),
            "not_whole");
  EXPECT_EQ(code_of([&] { cast(x, DType::field); }), "bad_cast");
  EXPECT_EQ(code_of([&] { cast(x, DType::i32); }), "bad_cast");
  EXPECT_EQ(code_of([&] { scale(x, {1, 0}); }), "bad_ratio");
  EXPECT_EQ(code_of([&] { scale(x, {1, kFieldPrimes[0]}); }), "none");
  EXPECT_EQ(code_of([&] {
              scale(filled(device, DType::field, {1}, 1), {1, 2 * kFieldPrimes[0]});
            }),
            "bad_ratio");
  EXPECT_EQ(code_of([&] { x.rows(1, 3); }), "bad_slice");
  EXPECT_EQ(code_of([&] { x.rows(2, 1); }), "bad_slice");
  EXPECT_EQ(code_of([&] { x.reshaped({5}); }), "bad_reshape");
  EXPECT_EQ(code_of([&] { Shape({1, 1, 1, 1, 1}); }), "bad_shape");
  EXPECT_EQ(code_of([&] { Shape({-1}); }), "bad_shape");
  EXPECT_EQ(code_of([&] { Shape({std::int64_t{1} << 40, std::int64_t{1} << 40}); }), "bad_shape");
}

TEST(Storage, BuffersInFlightAreNotTouched) {
  CpuDevice device;
  Tensor x = filled(device, DType::f32, {4}, 1);
  Tensor head = x.rows(0, 2);
  Tensor tail = x.rows(2, 4);
  head.storage().take_off(head.range(), Access::read, "reader");
  EXPECT_EQ(code_of([&] { host_bytes(head); }), "none");
  EXPECT_EQ(code_of([&] { fill(head, 2); }), "buffer_in_flight_write");
  EXPECT_EQ(code_of([&] { fill(x, 2); }), "buffer_in_flight_write");
  EXPECT_EQ(code_of([&] { fill(tail, 2); }), "none");
  tail.storage().take_off(tail.range(), Access::write, "writer");
  EXPECT_EQ(code_of([&] { host_bytes(tail); }), "buffer_in_flight_read");
  EXPECT_EQ(code_of([&] { add(x, x); }), "buffer_in_flight_read");
  tail.storage().land(tail.range(), Access::write);
  head.storage().land(head.range(), Access::read);
  EXPECT_EQ(code_of([&] { fill(x, 2); }), "none");
}

TEST(MemoryPool, BlocksAreLargeEnoughAndComeBack) {
  MemoryPool pool;
  for (std::size_t bytes = 0; bytes < (1 << 20); bytes = bytes + bytes / 7 + 1) {
    std::byte* block = pool.take(bytes, 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % MemoryPool::kAlignment, 0U);
    std::memset(block, 1, bytes);
    std::byte* other = pool.take(bytes, 3);
    EXPECT_NE(block, other);
    pool.give_back(block, bytes, 3);
    EXPECT_EQ(pool.take(bytes, 3), block);
    pool.give_back(block, bytes, 3);
    pool.give_back(other, bytes, 3);
  }
}

TEST(MemoryPool, OutlivesItsDevice) {
  auto device = std::make_unique<CpuDevice>();
  const Tensor x = filled(*device, DType::f32, {1000}, 1);
  device.reset();
  EXPECT_EQ(x.count(), 1000);
}

TEST(MemoryPool, RefusesWhatNoMachineHas) {
  MemoryPool pool;
  EXPECT_EQ(code_of([&] { pool.take(std::size_t{1} << 60, 0); }), "out_of_memory");
}

}  // namespace
