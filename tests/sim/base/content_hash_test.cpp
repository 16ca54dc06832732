// Proves that a content hash is the one that its header describes, on bytes of any number, and that a changed
// bit changes it.

#include "sim/base/content_hash.h"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <span>
#include <string>
#include <vector>

namespace {

using sim::ContentHash;

constexpr std::uint64_t kStart = 0xcbf29ce484222325U;

std::uint64_t after(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x100000001b3U;
  return hash ^ (hash >> 32);
}

/// The words are assembled from bytes, lowest byte first.
std::uint64_t word_at(const std::vector<std::uint8_t>& bytes, std::size_t begin) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8; ++i) word |= std::uint64_t{bytes[begin + i]} << (8 * i);
  return word;
}

/// The hash as the header describes it, one run after the other.
std::uint64_t described(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = kStart;
  const std::size_t words = bytes.size() / 32;  // of each of the four runs
  std::size_t next = 0;
  for (std::uint64_t run = 0; run < 4 && words > 0; ++run) {
    std::uint64_t of_run = kStart + run;
    for (std::size_t i = 0; i < words; ++i, next += 8) of_run = after(of_run, word_at(bytes, next));
    hash = after(hash, of_run);
  }
  for (; next + 8 <= bytes.size(); next += 8) hash = after(hash, word_at(bytes, next));
  for (; next < bytes.size(); ++next) hash = after(hash, bytes[next]);
  return hash;
}

std::uint64_t hash_of(const std::vector<std::uint8_t>& bytes) {
  ContentHash hash;
  hash.add(std::as_bytes(std::span(bytes)));
  return hash.value();
}

RC_GTEST_PROP(ContentHash, IsTheOneDescribed, (std::uint8_t first)) {
  std::vector<std::uint8_t> bytes(*rc::gen::inRange<std::size_t>(0, 300));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(first + 37 * i);
  RC_ASSERT(hash_of(bytes) == described(bytes));
}

RC_GTEST_PROP(ContentHash, SeesEveryBit, (std::vector<std::uint8_t> bytes)) {
  bytes.resize(bytes.size() + *rc::gen::inRange<std::size_t>(1, 100));
  std::vector<std::uint8_t> changed = bytes;
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  changed[at] = static_cast<std::uint8_t>(changed[at] ^ 1U << *rc::gen::inRange(0, 8));
  RC_ASSERT(hash_of(bytes) != hash_of(changed));
}

TEST(ContentHash, KnowsWhereATextEnds) {
  ContentHash one, other;
  one.add(std::string_view("ab"));
  one.add(std::string_view("c"));
  other.add(std::string_view("a"));
  other.add(std::string_view("bc"));
  EXPECT_NE(one.value(), other.value());
}

}  // namespace
