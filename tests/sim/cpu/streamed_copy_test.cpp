// Proves that a streamed copy moves its bytes and leaves those around them alone, at any alignment.

#include "sim/cpu/streamed_copy.h"

#include <cstdint>
#include <rapidcheck/gtest.h>
#include <vector>

namespace {

RC_GTEST_PROP(StreamedCopy, MovesItsBytesAndNoOthers, ()) {
  const auto place = [](std::int64_t end) { return *rc::gen::inRange<std::int64_t>(0, end); };
  const std::int64_t bytes = place(400), from = place(130), to = place(130);
  std::vector<std::byte> source(600), target(600, std::byte{0xee});
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> expected = target;
  std::copy_n(source.begin() + from, bytes, expected.begin() + to);
  sim::streamed_copy(source.data() + from, target.data() + to, bytes);
  RC_ASSERT(target == expected);
}

}  // namespace
