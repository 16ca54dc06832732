// Proves that row slices share the storage of a tensor, that reshaping keeps its elements, and what a
// tensor refuses.

#include "sim/tensor/tensor.h"

#include <gtest/gtest.h>
#include <memory>

#include "sim/cpu/cpu_device.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;

Tensor counted(Device& device, const Shape& shape) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  return test::tensor_of(device, DType::i32, shape, numbers);
}

TEST(Tensor, RowsShareStorage) {
  CpuDevice device;
  const Tensor whole = counted(device, {4, 3});
  Tensor slice = whole.rows(1, 3).rows(1, 2);
  EXPECT_EQ(slice.shape(), (Shape{1, 3}));
  EXPECT_EQ(test::values<std::int32_t>(slice), (std::vector<std::int32_t>{6, 7, 8}));
  EXPECT_EQ(slice.range(), (ByteRange{24, 36}));
  fill(slice, -1);
  EXPECT_EQ(test::values<std::int32_t>(whole),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, -1, -1, -1, 9, 10, 11}));
  EXPECT_TRUE(test::values<std::int32_t>(whole.rows(4, 4)).empty());
}

TEST(Tensor, ReshapedKeepsElements) {
  CpuDevice device;
  const Tensor whole = counted(device, {4, 3});
  EXPECT_EQ(test::values<std::int32_t>(whole.rows(2, 4).reshaped({3, 2}).rows(1, 2)),
            (std::vector<std::int32_t>{8, 9}));
  EXPECT_EQ(whole.flat().shape(), (Shape{12}));
}

TEST(Tensor, OverlapsWithinOneStorage) {
  CpuDevice device;
  const Tensor whole = counted(device, {4, 3});
  EXPECT_TRUE(whole.overlaps(whole.rows(3, 4)));
  EXPECT_FALSE(whole.rows(0, 2).overlaps(whole.rows(2, 4)));
  EXPECT_FALSE(whole.overlaps(whole.rows(2, 2)));
  EXPECT_FALSE(whole.overlaps(counted(device, {4, 3})));
}

TEST(Tensor, RefusesRowsAndShapesItHasNot) {
  CpuDevice device;
  const Tensor whole = counted(device, {4, 3});
  EXPECT_EQ(refusal_code([&] { whole.rows(-1, 2); }), "bad_slice");
  EXPECT_EQ(refusal_code([&] { whole.rows(2, 1); }), "bad_slice");
  EXPECT_EQ(refusal_code([&] { whole.rows(0, 5); }), "bad_slice");
  EXPECT_EQ(refusal_code([&] { counted(device, {}).rows(0, 1); }), "bad_slice");
  EXPECT_EQ(refusal_code([&] { whole.reshaped({4, 4}); }), "bad_reshape");
  EXPECT_EQ(refusal_code([&] { device.empty(DType::field, {std::int64_t{1} << 42}); }), "out_of_memory");
}

}  // namespace
