// Proves that copy_bytes copies every byte and no other, whatever the size and the place of the buffers.

#include "sim/base/copy_bytes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

namespace {

RC_GTEST_PROP(CopyBytes, CopiesEachByteAndNoOther, ()) {
  const auto bytes = *rc::gen::weightedOneOf<std::size_t>(
      {{19, rc::gen::inRange<std::size_t>(0, 5000)},
       {1, rc::gen::inRange<std::size_t>((1 << 20) - 2, (1 << 20) + 3)}});
  const auto before_from = *rc::gen::inRange<std::size_t>(0, 70),
             before_to = *rc::gen::inRange<std::size_t>(0, 70);
  std::vector<std::byte> from(before_from + bytes), to(before_to + bytes + 5, std::byte{7});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 256);
  std::vector<std::byte> expected = to;
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(before_from), from.end(),
            expected.begin() + static_cast<std::ptrdiff_t>(before_to));
  sim::copy_bytes(from.data() + before_from, to.data() + before_to, bytes);
  RC_ASSERT(std::equal(to.begin(), to.end(), expected.begin()));
}

}  // namespace
