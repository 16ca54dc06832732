// Proves what the operations of ops.h refuse, and that they refuse before anything is written.

#include <gtest/gtest.h>
#include <limits>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/adam.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/dropout.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/normalization.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/permutation.h"
#include "sim/tensor/rotary.h"
#include "sim/tensor/rows.h"
#include "sim/tensor/running_device.h"
#include "sim/tensor/softmax.h"
#include "sim/tensor/token_loss.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;

constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::field, DType::i32};

class OpsRefusals : public ::testing::Test {
 protected:
  CpuDevice device_;
  Tensor x_ = filled(device_, DType::f32, {4, 3}, 1);
  Tensor none_;
};

TEST_F(OpsRefusals, TensorsThatAreNone) {
  EXPECT_EQ(refusal_code([&] { fill(none_, 1); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { copy(x_, none_); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { copy(none_, x_); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { add(none_, x_); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { add_to(x_, none_); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { scale(none_, {1, 2}); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { cast(none_, DType::f64); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { host_bytes(none_); }), "null_tensor");
}

TEST_F(OpsRefusals, TheOptimizerStepsInNoBf16) {
  Tensor x = filled(device_, DType::bf16, {1}, 1), one = x, two = x;
  const std::vector<std::byte> before = host_bytes(x);
  EXPECT_EQ(refusal_code([&] { adam(x, {.step = 1}, one, two, two); }), "bad_dtype");
  EXPECT_EQ(refusal_code([&] { clip_factor(x, {1, 2}); }), "bad_dtype");
  EXPECT_EQ(refusal_code([&] { scale_by(x, x); }), "bad_dtype");
  EXPECT_EQ(refusal_code([&] { nonfinite_flag(x); }), "bad_dtype");
  EXPECT_EQ(host_bytes(x), before);
  Tensor sum = filled(device_, DType::f32, {1}, 0);  // the sum of squares of bf16 is f32
  EXPECT_EQ(refusal_code([&] { add_sum_of_squares(x, sum); }), "none");
}

TEST_F(OpsRefusals, ShapesAreToldInTheOrderOfTheArguments) {
  try {
    add_bias(x_, filled(device_, DType::f32, {4}, 1));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().numbers, "[4, 3], [4], in the order of its arguments");
  }
}

TEST_F(OpsRefusals, TensorsThatDoNotFit) {
  const std::shared_ptr<Device> rank = device_.for_rank(1);
  Tensor other = filled(*rank, DType::f32, {4, 3}, 1);
  EXPECT_EQ(refusal_code([&] { copy(x_, other); }), "wrong_device");
  EXPECT_EQ(refusal_code([&] { add(x_, other); }), "wrong_device");
  EXPECT_EQ(refusal_code([&] { require_usable(other, device_, "user"); }), "wrong_device");
  EXPECT_EQ(refusal_code([&] { add(x_, filled(device_, DType::f32, {3, 4}, 1)); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { add_to(x_, x_.rows(0, 3)); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { copy(filled(device_, DType::i32, {4, 3}, 1), x_); }), "dtype_mismatch");
  EXPECT_EQ(refusal_code([&] {
              combine(ReduceOp::max, x_, filled(device_, DType::f64, {4, 3}, 1));
            }),
            "dtype_mismatch");
}

TEST_F(OpsRefusals, NumbersThatDoNotFit) {
  for (const double value : {0.5, 2147483648.0, -2147483648.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(refusal_code([&] { filled(device_, DType::i32, {1}, value); }), "not_whole") << value;
    EXPECT_EQ(refusal_code([&] { filled(device_, DType::field, {1}, value); }), "not_whole") << value;
    EXPECT_EQ(refusal_code([&] { filled(device_, DType::bf16, {1}, value); }), "none") << value;
  }
  EXPECT_EQ(refusal_code([&] { filled(device_, DType::i32, {1}, -2147483647.0); }), "none");
}

TEST_F(OpsRefusals, Casts) {
  const auto is_float = [](DType dtype) { return dtype != DType::field && dtype != DType::i32; };
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const bool fine = from == to || from == DType::i32 || (is_float(from) && is_float(to));
      EXPECT_EQ(refusal_code([&] { cast(filled(device_, from, {2}, 1), to); }), fine ? "none" : "bad_cast")
          << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST_F(OpsRefusals, Ratios) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const DType dtype : kAll) {
    const Tensor one = filled(device_, dtype, {2}, 1);
    for (const Ratio ratio : {Ratio{1, 0}, Ratio{1, -2}, Ratio{1, kMost + 1}, Ratio{kMost + 1, 1},
                              Ratio{-kMost - 1, 1}, Ratio{std::numeric_limits<std::int64_t>::min(), 1}}) {
      EXPECT_EQ(refusal_code([&] { scale(one, ratio); }), "bad_ratio") << name_of(dtype) << ratio.denominator;
    }
    EXPECT_EQ(refusal_code([&] { scale(one, {-kMost, kMost}); }), "none") << name_of(dtype);
    for (const std::int64_t prime : kFieldPrimes) {
      EXPECT_EQ(refusal_code([&] {
                  scale(one, {1, 3 * prime});
                }),
                dtype == DType::field ? "bad_ratio" : "none");
    }
  }
}

TEST_F(OpsRefusals, PartialOverlap) {
  Tensor head = x_.rows(0, 3);
  const Tensor tail = x_.rows(1, 4);
  EXPECT_EQ(refusal_code([&] { copy(tail, head); }), "partial_overlap");
  EXPECT_EQ(refusal_code([&] { add_to(head, tail); }), "partial_overlap");
  EXPECT_EQ(refusal_code([&] { copy(head, head); }), "none");
  EXPECT_EQ(refusal_code([&] { add_to(head, head); }), "none");
  EXPECT_EQ(refusal_code([&] { add(head, tail); }), "none");
}

TEST_F(OpsRefusals, ValuesAndReductionsThatAreNone) {
  const std::vector<std::byte> bytes(7);
  EXPECT_EQ(refusal_code([&] { from_host(device_, DType::f32, {2}, bytes); }), "host_size");
  EXPECT_EQ(refusal_code([&] { combine(static_cast<ReduceOp>(9), x_, x_); }), "bad_reduction");
  EXPECT_EQ(refusal_code([&] { static_cast<void>(Tensor().device()); }), "null_tensor");
  EXPECT_EQ(refusal_code([&] { static_cast<void>(Tensor().storage()); }), "null_tensor");
}

TEST_F(OpsRefusals, OfAnotherRankThanTheOneThatRuns) {
  const std::shared_ptr<Device> rank = device_.for_rank(1);
  const RunningDevice running(rank.get());
  EXPECT_EQ(refusal_code([&] { fill(x_, 1); }), "wrong_device");
  EXPECT_EQ(refusal_code([&] { host_bytes(x_); }), "wrong_device");
  EXPECT_EQ(refusal_code([&] { filled(*rank, DType::f32, {2}, 1); }), "none");
}

TEST_F(OpsRefusals, WhatLayersAsk) {
  const Tensor ids = filled(device_, DType::i32, {4}, 0);
  const Tensor y = filled(device_, DType::f32, {3, 4}, 1);
  Tensor sums = filled(device_, DType::f32, {3}, 0);
  Tensor none;
  EXPECT_EQ(refusal_code([&] { matmul(x_, x_); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { matmul(x_, y); }), "none");
  EXPECT_EQ(refusal_code([&] { matmul(ids, ids); }), "bad_dtype");
  EXPECT_EQ(refusal_code([&] { add_matmul(x_, y, sums); }), "shape_mismatch");
  Tensor doubles = filled(device_, DType::f64, {4, 4}, 0);
  EXPECT_EQ(refusal_code([&] { add_matmul(x_, y, doubles); }), "dtype_mismatch");
  EXPECT_EQ(refusal_code([&] { add_bias(x_, y); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { columns(x_, 2, 2); }), "bad_columns");
  EXPECT_EQ(refusal_code([&] { put_columns(x_, x_, 0); }), "partial_overlap");
  EXPECT_EQ(refusal_code([&] { lookup(x_, x_, 0); }), "bad_dtype");
  EXPECT_EQ(refusal_code([&] { permuted(x_, {0, 1, 2, 3}); }), "bad_permutation");
  EXPECT_EQ(refusal_code([&] { permuted(x_.reshaped({1, 1, 4, 3}), {0, 1, 2, 2}); }), "bad_permutation");
  EXPECT_EQ(refusal_code([&] { softmax(x_, 0, {}); }), "bad_divisor");
  Tensor stats = filled(device_, DType::f32, {2, 3}, 1);
  EXPECT_EQ(refusal_code([&] { partial_softmax(x_, 1, {}, stats); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { merge_softmax(x_, stats, x_, stats); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { finish_softmax(x_, stats, DType::f32); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { partial_softmax_backward(x_, 1, {}, stats, x_, stats); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { dropout(x_, KeyedRandom(1), {1, 1}); }), "bad_dropout");
  EXPECT_EQ(refusal_code([&] { normalize(Norm::rms_norm, x_, sums, sums, {1, 8}); }), "shape_mismatch");
  EXPECT_EQ(refusal_code([&] { normalize(Norm::rms_norm, x_, sums, none, {1, 0}); }), "bad_ratio");
  EXPECT_EQ(refusal_code([&] { normalize(Norm::rms_norm, x_, sums, none, {1, 8}); }), "none");
  EXPECT_EQ(refusal_code([&] { row_max(x_, {.columns = 4, .vocabulary = 3}); }), "bad_loss");
  EXPECT_EQ(refusal_code([&] { row_max(x_, {.columns = 3, .vocabulary = 3}); }), "none");
  EXPECT_EQ(refusal_code([&] { rotary_tables(device_, DType::f32, 0, 4, 3, 10000); }), "bad_rotary");
}

TEST_F(OpsRefusals, BuffersInFlight) {
  Tensor head = x_.rows(0, 2);
  const Tensor y = filled(device_, DType::f32, {2, 3}, 1);
  x_.storage().take_off(head.range(), Access::read, "reader");
  EXPECT_EQ(refusal_code([&] { fill(head, 2); }), "buffer_in_flight_write");
  EXPECT_EQ(refusal_code([&] { copy(y, head); }), "buffer_in_flight_write");
  EXPECT_EQ(refusal_code([&] { add_to(head, y); }), "buffer_in_flight_write");
  EXPECT_EQ(refusal_code([&] { add(head, y); }), "none");
  x_.storage().land(head.range(), Access::read);
  x_.storage().take_off(head.range(), Access::write, "writer");
  Tensor z = y;
  EXPECT_EQ(refusal_code([&] { copy(head, z); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { add(head, y); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { add(y, head); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { add_to(z, head); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { scale(head, {1, 2}); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { cast(head, DType::f64); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { host_bytes(head); }), "buffer_in_flight_read");
  EXPECT_EQ(refusal_code([&] { host_bytes(x_.rows(2, 4)); }), "none");
  x_.storage().land(head.range(), Access::write);
  EXPECT_EQ(test::values<float>(x_), std::vector<float>(12, 1.0F));
}

}  // namespace
