// Proves that a memory pool hands out blocks that are large enough, aligned and apart from each other,
// and reuses a block on its lane.

#include "sim/tensor/memory_pool.h"

#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <vector>

#include "tests/support/refusal_code.h"

namespace {

using sim::MemoryPool;

bool is_aligned(const std::byte* block) {
  return reinterpret_cast<std::uintptr_t>(block) % MemoryPool::kAlignment == 0;
}

// Each size takes again the block that was allocated for the smallest size of its class, if there is
// one. AddressSanitizer detects the first byte past the end of that block.
TEST(MemoryPool, EverySizeGetsABlockLargeEnough) {
  MemoryPool pool;
  const std::byte* last = nullptr;
  for (std::size_t bytes = 1; bytes <= std::size_t{1} << 20; ++bytes) {
    std::byte* block = pool.take(bytes, 0);
    ASSERT_TRUE(is_aligned(block)) << bytes;
    // A reused block is already filled but for its new last byte.
    if (block != last) std::memset(block, 1, bytes);
    block[bytes - 1] = std::byte{1};
    pool.give_back(block, bytes, 0);
    last = block;
  }
}

// Small blocks are cut from slabs, where AddressSanitizer detects nothing. No block may reach into another.
TEST(MemoryPool, BlocksOfOneSlabLieApart) {
  MemoryPool pool;
  std::vector<std::byte*> blocks;
  for (std::size_t bytes = 1; bytes <= 4200; ++bytes) {
    blocks.push_back(pool.take(bytes, 0));
    std::memset(blocks.back(), static_cast<int>(bytes % 251), bytes);
  }
  for (std::size_t bytes = 1; bytes <= blocks.size(); ++bytes) {
    const std::vector<std::byte> expected(bytes, static_cast<std::byte>(bytes % 251));
    ASSERT_EQ(std::memcmp(blocks[bytes - 1], expected.data(), bytes), 0) << bytes;
    pool.give_back(blocks[bytes - 1], bytes, 0);
  }
}

RC_GTEST_PROP(MemoryPool, HandsOutWhatCameBackToTheSameLane, ()) {
  MemoryPool pool;
  const auto bytes = static_cast<std::size_t>(*rc::gen::inRange(0, 1 << *rc::gen::inRange(1, 21)));
  const auto lane = *rc::gen::inRange<std::size_t>(0, 200);
  const auto other_lane = lane + *rc::gen::inRange<std::size_t>(1, MemoryPool::kLanes);
  std::byte* const block = pool.take(bytes, lane);
  std::byte* const second = pool.take(bytes, lane);
  RC_ASSERT(block != second);
  pool.give_back(block, bytes, lane);
  std::byte* const elsewhere = pool.take(bytes, other_lane);
  RC_ASSERT(elsewhere != block);
  RC_ASSERT(pool.take(bytes, lane + MemoryPool::kLanes) == block);
  pool.give_back(block, bytes, lane);
  pool.give_back(second, bytes, lane);
  pool.give_back(elsewhere, bytes, other_lane);
}

TEST(MemoryPool, RefusesWhatNoMachineHolds) {
  MemoryPool pool;
  for (const std::size_t bytes :
       {(std::size_t{1} << 46) + 1, std::size_t{1} << 60, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_EQ(test::refusal_code([&] { pool.take(bytes, 0); }), "out_of_memory") << bytes;
  }
}

}  // namespace
