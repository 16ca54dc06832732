#include "sim/base/keyed_random.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"
#include "sim/base/philox.h"
#include "sim/base/vectorised.h"

namespace sim {

using random_words::high;
using random_words::join;
using random_words::low;
using random_words::run_rounds;

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::uint32_t one[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  run_rounds(one, key[0], key[1]);
  return {one[0][0], one[1][0], one[2][0], one[3][0]};
}

KeyedRandom KeyedRandom::named(std::string_view name) const {
  // The name is absorbed eight bytes at a time and its length last, so that no two names give the same
  // sequence of words.
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

std::uint64_t KeyedRandom::bits(std::uint64_t index) const { return random_words::bits(key_, index); }

namespace {

/// Replaces at most kLanes indices by their bits. It takes the same time for any number of them.
template <std::size_t kLanes>
void bits_of(std::uint64_t key, std::uint64_t* indices, std::size_t count) {
  std::uint32_t counters[4][kLanes] = {};
  for (std::size_t lane = 0; lane < count; ++lane) {
    counters[0][lane] = low(indices[lane]);
    counters[1][lane] = high(indices[lane]);
  }
  run_rounds(counters, low(key), high(key));
  for (std::size_t lane = 0; lane < count; ++lane) indices[lane] = join(counters[0][lane], counters[1][lane]);
}

}  // namespace

void KeyedRandom::bits(std::span<std::uint64_t> indices) const {
  vectorised([&] {
    std::uint64_t* next = indices.data();
    std::size_t left = indices.size();
    for (; left >= 32; next += 32, left -= 32) bits_of<32>(key_, next, 32);
    for (; left >= 8; next += 8, left -= 8) bits_of<8>(key_, next, 8);
    if (left > 0) bits_of<8>(key_, next, left);
  });
}

std::uint32_t KeyedRandom::below_of(std::uint64_t bits, std::uint32_t below) {
  CHECK(below >= 1);
  return high(std::uint64_t{high(bits)} * below);
}

}  // namespace sim
