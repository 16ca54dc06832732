#include "sim/base/keyed_random.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"
#include "sim/base/vectorised.h"

namespace sim {

namespace {

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
constexpr std::uint64_t join(std::uint32_t lower, std::uint32_t upper) {
  return std::uint64_t{lower} | std::uint64_t{upper} << 32;
}

/// Philox of as many counters as there are lanes, word by word.
template <std::size_t lanes>
inline void run_rounds(std::array<std::array<std::uint32_t, lanes>, 4>& c, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53U;
  constexpr std::uint64_t kMultiplier1 = 0xcd9e8d57U;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t product0 = kMultiplier0 * c[0][lane];
      const std::uint64_t product1 = kMultiplier1 * c[2][lane];
      c[0][lane] = high(product1) ^ c[1][lane] ^ key[0];
      c[1][lane] = low(product1);
      c[2][lane] = high(product0) ^ c[3][lane] ^ key[1];
      c[3][lane] = low(product0);
    }
    key[0] += 0x9e3779b9U;
    key[1] += 0xbb67ae85U;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::array<std::array<std::uint32_t, 1>, 4> one = {
      {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}}};
  run_rounds(one, key);
  return {one[0][0], one[1][0], one[2][0], one[3][0]};
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

void KeyedRandom::bits(std::span<std::uint64_t> indices) const {
  vectorised([&] {
    constexpr std::size_t kLanes = 32;
    std::array<std::array<std::uint32_t, kLanes>, 4> counters = {};
    for (std::size_t begin = 0; begin < indices.size(); begin += kLanes) {
      const std::size_t count = std::min(kLanes, indices.size() - begin);
      for (std::size_t lane = 0; lane < count; ++lane) {
        counters[0][lane] = low(indices[begin + lane]);
        counters[1][lane] = high(indices[begin + lane]);
      }
      counters[2] = counters[3] = {};
      run_rounds(counters, {low(key_), high(key_)});
      for (std::size_t lane = 0; lane < count; ++lane)
        indices[begin + lane] = join(counters[0][lane], counters[1][lane]);
    }
  });
}

std::uint32_t KeyedRandom::below_of(std::uint64_t bits, std::uint32_t below) {
  CHECK(below >= 1);
  return high(std::uint64_t{high(bits)} * below);
}

}  // namespace sim
