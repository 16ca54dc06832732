#include "sim/base/keyed_random.h"

#include <cstddef>

#include "sim/base/check.h"

namespace sim {

namespace {

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
constexpr std::uint64_t join(std::uint32_t lower, std::uint32_t upper) {
  return std::uint64_t{lower} | std::uint64_t{upper} << 32;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53U;
  constexpr std::uint64_t kMultiplier1 = 0xcd9e8d57U;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += 0x9e3779b9U;
    key[1] += 0xbb67ae85U;
  }
  return counter;
}

KeyedRandom KeyedRandom::named(std::string_view name) const {
  // The name is absorbed eight bytes at a time, with its length last, so that no two names run into each other.
  std::uint64_t key = key_;
  const auto absorb = [&](std::uint64_t word) {
    const auto block = philox({low(word), high(word), 0x6e616d65U, 0}, {low(key), high(key)});
    key = join(block[0], block[1]);
  };
  for (std::size_t start = 0; start < name.size(); start += 8) {
    std::uint64_t word = 0;
    for (const char c : name.substr(start, 8)) word = word << 8 | static_cast<unsigned char>(c);
    absorb(word);
  }
  absorb(name.size());
  return KeyedRandom(key);
}

std::uint64_t KeyedRandom::bits(std::uint64_t index) const {
  const auto block = philox({low(index), high(index), 0, 0}, {low(key_), high(key_)});
  return join(block[0], block[1]);
}

double KeyedRandom::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

std::uint32_t KeyedRandom::below(std::uint64_t index, std::uint32_t below) const {
  CHECK(below >= 1);
  return high(std::uint64_t{high(bits(index))} * below);
}

}  // namespace sim
