#pragma once

/// Philox 4x32-10, the block cipher behind keyed random numbers, for CPUs and GPUs alike.
///
/// Exact   integers only.
/// Source  Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/base/host_device.h"

namespace sim::random_words {

SIM_HOST_DEVICE constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
SIM_HOST_DEVICE constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
SIM_HOST_DEVICE constexpr std::uint64_t join(std::uint32_t lower, std::uint32_t upper) {
  return std::uint64_t{lower} | std::uint64_t{upper} << 32;
}

/// Runs the rounds on `lanes` counters at once; c[word][lane] is one word of one counter.
template <std::size_t lanes>
SIM_HOST_DEVICE inline void run_rounds(std::uint32_t (&c)[4][lanes], std::uint32_t key0, std::uint32_t key1) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53U;
  constexpr std::uint64_t kMultiplier1 = 0xcd9e8d57U;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t product0 = kMultiplier0 * c[0][lane];
      const std::uint64_t product1 = kMultiplier1 * c[2][lane];
      c[0][lane] = high(product1) ^ c[1][lane] ^ key0;
      c[1][lane] = low(product1);
      c[2][lane] = high(product0) ^ c[3][lane] ^ key1;
      c[3][lane] = low(product0);
    }
    key0 += 0x9e3779b9U;
    key1 += 0xbb67ae85U;
  }
}

/// Returns what KeyedRandom::bits(index) returns for the stream with this key.
SIM_HOST_DEVICE inline std::uint64_t bits(std::uint64_t key, std::uint64_t index) {
  std::uint32_t counter[4][1] = {{low(index)}, {high(index)}, {0}, {0}};
  run_rounds(counter, low(key), high(key));
  return join(counter[0][0], counter[1][0]);
}

/// Returns a number in [0, 1), a multiple of 2^-53.
SIM_HOST_DEVICE inline double uniform_of(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace sim::random_words
