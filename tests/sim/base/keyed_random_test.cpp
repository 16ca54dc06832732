// Proves that keyed random numbers are a function of seed, name and index, stay in their range, and
// match the published answers of Philox.

#include "sim/base/keyed_random.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <vector>

namespace {

using sim::KeyedRandom;

TEST(KeyedRandom, PhiloxGivesItsPublishedAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(sim::philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(sim::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(sim::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

RC_GTEST_PROP(KeyedRandom, IsAFunctionOfSeedNameAndIndex, (std::uint64_t seed, std::string name)) {
  const auto index = *rc::gen::arbitrary<std::uint64_t>();
  const KeyedRandom one = KeyedRandom(seed).named(name);
  RC_ASSERT(one.bits(index) == KeyedRandom(seed).named(name).bits(index));
  RC_ASSERT(one.bits(index) != one.bits(index + 1));
  RC_ASSERT(one.bits(index) != KeyedRandom(seed + 1).named(name).bits(index));
  RC_ASSERT(one.bits(index) != KeyedRandom(seed).named(name + "x").bits(index));
  RC_ASSERT(one.bits(index) != KeyedRandom(seed).named(name + std::string(1, '\0')).bits(index));
}

RC_GTEST_PROP(KeyedRandom, StaysInItsRange, (std::uint64_t seed, std::uint64_t index)) {
  const auto below = *rc::gen::inRange<std::uint32_t>(1, 1000);
  const KeyedRandom random(seed);
  RC_ASSERT(random.below(index, below) < below);
  RC_ASSERT(random.uniform(index) >= 0 && random.uniform(index) < 1);
}

TEST(KeyedRandom, ReachesEveryValue) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t index = 0; index < 200; ++index) seen.insert(KeyedRandom(1).below(index, 7));
  EXPECT_EQ(seen.size(), 7U);
}

RC_GTEST_PROP(KeyedRandom, SeveralAtATimeAreTheSame,
              (std::uint64_t seed, std::vector<std::uint64_t> indices)) {
  const KeyedRandom random(seed);
  std::vector<std::uint64_t> values = indices;
  values.resize(values.size() + seed % 100, seed);  // more than one round of lanes
  indices = values;
  random.bits(values);
  for (std::size_t i = 0; i < values.size(); ++i) RC_ASSERT(values[i] == random.bits(indices[i]));
}

/// The two words of a block are the halves of one block of Philox, which no call of bits() uses.
RC_GTEST_PROP(KeyedRandom, WordsAreTheHalvesOfBlocks,
              (std::uint64_t seed, std::vector<std::uint64_t> blocks, std::uint8_t more)) {
  const auto join = [](std::uint32_t lower, std::uint32_t upper) {
    return std::uint64_t{lower} | std::uint64_t{upper} << 32;
  };
  for (std::uint64_t i = 0; i < more % 20; ++i) blocks.push_back(seed + i);  // more than one round of lanes
  const KeyedRandom random(seed);
  std::vector<std::uint64_t> words(2 * blocks.size());
  random.words(blocks, words);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto block = sim::philox(
        {static_cast<std::uint32_t>(blocks[i]), static_cast<std::uint32_t>(blocks[i] >> 32), 0x776f7264, 0},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    RC_ASSERT(words[2 * i] == join(block[0], block[1]));
    RC_ASSERT(words[2 * i + 1] == join(block[2], block[3]));
    RC_ASSERT(words[2 * i] != random.bits(blocks[i]));
  }
}

}  // namespace
