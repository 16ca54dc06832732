// Proves what only a GPU that this machine plays can show: that the comparison finds a wrong bit, and
// that streams do not wait unless they are ordered.

#include <cstring>
#include <gtest/gtest.h>

#include "gpu/device/runtime.h"
#include "tests/gpu/both_devices.h"

namespace {

using namespace sim;
using Tensors = std::vector<Tensor>;

TEST(BothDevices, SeeOneBit) {
  test::BothDevices both("planted", test::gpu_under_test().device);
  const auto difference = [&](DType dtype, double on_cpu, double on_gpu) {
    return both.difference({}, [&](Device& device, Tensors&) {
      Tensor x = device.empty(dtype, {5});
      device.fill(x, 1);
      Tensor last = x.rows(4, 5);
      device.fill(last, std::strcmp(device.name(), "cpu") == 0 ? on_cpu : on_gpu);
      return Tensors{x};
    });
  };
  EXPECT_EQ(difference(DType::f32, 1, 1), "");
  EXPECT_EQ(difference(DType::f32, 1, 1 + 0x1p-23),
            "output 0, f32 [5]: element 4 of 5: 0x1p+0 and 0x1.000002p+0");
  EXPECT_NE(difference(DType::f64, 1, 1 + 0x1p-52), "");
  EXPECT_NE(difference(DType::bf16, 1, 1 + 0x1p-7), "");
  EXPECT_NE(difference(DType::f32, 0.0, -0.0), "");
  EXPECT_NE(difference(DType::i32, 3, 4), "");
}

TEST(Streams, DoNothingBeforeTheyMust) {
  std::byte* block = gpu::allocate(4);
  gpu::Stream* writer = gpu::make_stream();
  gpu::Stream* reader = gpu::make_stream();
  std::uint8_t seen = 0;
  const auto read = [&] {
    gpu::copy_from_gpu(reader, block, &seen, 1);
    gpu::wait_for(reader);
    return seen;
  };
  gpu::set_bytes(writer, block, 1, 4);
  gpu::wait_for(writer);
  gpu::set_bytes(writer, block, 2, 4);
  EXPECT_EQ(read(), 1);  // the reader was not ordered after the writer
  gpu::order_after(reader, writer);
  gpu::set_bytes(writer, block, 3, 4);
  EXPECT_EQ(read(), 2);  // the writes that came before the order, and no later ones
  gpu::end_stream(reader);
  gpu::end_stream(writer);
  gpu::release(block);
}

}  // namespace
