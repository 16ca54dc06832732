#include "sim/base/keyed_random.h"

#include <algorithm>
#include <cstddef>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sim/base/check.h"
#include "sim/base/kernel_options.h"
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

/// So many blocks run at once where there are enough: the rounds of one block wait for each other.
constexpr std::size_t kManyAtOnce = 8;
/// The last blocks run so many at a time.
constexpr std::size_t kAtOnce = 4;

/// The third word of the counters: the blocks of bits(), which gives one word of each, are others than those
/// of words(), which gives both.
template <std::size_t words>
constexpr std::uint32_t kTag = words == 1 ? 0 : 0x776f7264U;

/// Sets out[words i], ... to the first `words` words, of 64 bits, of block number `numbers[i]`, for `lanes`
/// blocks. With one word, `out` may be `numbers`.
template <std::size_t lanes, std::size_t words>
void some_blocks(std::uint64_t key, const std::uint64_t* numbers, std::uint64_t* out) {
  std::uint32_t counters[4][lanes] = {};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    counters[0][lane] = low(numbers[lane]);
    counters[1][lane] = high(numbers[lane]);
    counters[2][lane] = kTag<words>;
  }
  run_rounds(counters, low(key), high(key));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    for (std::size_t word = 0; word < words; ++word)
      out[words * lane + word] = join(counters[2 * word][lane], counters[2 * word + 1][lane]);
  }
}

#if defined(__x86_64__)

/// The counters of 4 * `vectors` blocks, one word of a block in 64 bits. The upper half of a word holds
/// anything: a product reads the lower half only, so that no word changes its lane.
template <std::size_t vectors>
struct Counters {
  __m256i c0[vectors], c1[vectors], c2[vectors], c3[vectors];
};

template <std::size_t vectors>
[[gnu::target("avx2"), gnu::always_inline]] inline void start(Counters<vectors>& c,
                                                              const std::uint64_t* numbers,
                                                              std::uint32_t tag) {
#pragma GCC unroll 2
  for (std::size_t v = 0; v < vectors; ++v) {
    c.c0[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers) + v);
    c.c1[v] = _mm256_srli_epi64(c.c0[v], 32);
    c.c2[v] = _mm256_set1_epi64x(tag);
    c.c3[v] = _mm256_setzero_si256();
  }
}

/// The same as run_rounds() (philox.h).
template <std::size_t vectors>
[[gnu::target("avx2"), gnu::always_inline]] inline void run_rounds_avx2(Counters<vectors>& c,
                                                                        std::uint64_t key) {
  constexpr int kRounds = 10;
  const __m256i multiplier0 = _mm256_set1_epi64x(0xd2511f53), multiplier1 = _mm256_set1_epi64x(0xcd9e8d57);
  std::uint32_t key0 = low(key), key1 = high(key);
#pragma GCC unroll kRounds
  for (int round = 0; round < kRounds; ++round) {
    const __m256i round_key0 = _mm256_set1_epi64x(key0), round_key1 = _mm256_set1_epi64x(key1);
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m256i product0 = _mm256_mul_epu32(c.c0[v], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c.c2[v], multiplier1);
      c.c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c.c1[v]), round_key0);
      c.c1[v] = product1;
      c.c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c.c3[v]), round_key1);
      c.c3[v] = product0;
    }
    key0 += 0x9e3779b9U;
    key1 += 0xbb67ae85U;
  }
}

/// Returns join() of each lane.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i joined(__m256i lower, __m256i upper) {
  constexpr int kOddWords = 0xaa;
  return _mm256_blend_epi32(lower, _mm256_slli_epi64(upper, 32), kOddWords);
}

/// The same as some_blocks().
template <std::size_t lanes, std::size_t words>
[[gnu::target("avx2")]] void some_blocks_avx2(std::uint64_t key, const std::uint64_t* numbers,
                                              std::uint64_t* out) {
  constexpr std::size_t kVectors = lanes / 4;
  constexpr int kLowerHalves = 0x20, kUpperHalves = 0x31;
  Counters<kVectors> c;
  start(c, numbers, kTag<words>);
  run_rounds_avx2(c, key);
  auto* const to = reinterpret_cast<__m256i*>(out);
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) {
    const __m256i first = joined(c.c0[v], c.c1[v]);
    if constexpr (words == 1) {
      _mm256_storeu_si256(to + v, first);
    } else {
      const __m256i second = joined(c.c2[v], c.c3[v]);
      const __m256i even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
      _mm256_storeu_si256(to + 2 * v, _mm256_permute2x128_si256(even, odd, kLowerHalves));
      _mm256_storeu_si256(to + 2 * v + 1, _mm256_permute2x128_si256(even, odd, kUpperHalves));
    }
  }
}

#endif

/// The same as some_blocks(), for any number of blocks.
template <std::size_t words>
void all_blocks(std::uint64_t key, std::span<const std::uint64_t> numbers, std::uint64_t* out) {
  auto many = some_blocks<kManyAtOnce, words>;
  auto some = some_blocks<kAtOnce, words>;
#if defined(__x86_64__)
  if (has_avx2()) {
    many = some_blocks_avx2<kManyAtOnce, words>;
    some = some_blocks_avx2<kAtOnce, words>;
  }
#endif
  const std::uint64_t* next = numbers.data();
  std::size_t left = numbers.size();
  for (; left >= kManyAtOnce; next += kManyAtOnce, out += words * kManyAtOnce, left -= kManyAtOnce)
    many(key, next, out);
  for (; left >= kAtOnce; next += kAtOnce, out += words * kAtOnce, left -= kAtOnce) some(key, next, out);
  if (left == 0) return;
  std::array<std::uint64_t, kAtOnce> last_numbers{};
  std::array<std::uint64_t, words * kAtOnce> last_words{};
  std::copy_n(next, left, last_numbers.begin());
  some(key, last_numbers.data(), last_words.data());
  std::copy_n(last_words.begin(), words * left, out);
}

}  // namespace

void KeyedRandom::bits(std::span<std::uint64_t> indices) const {
  all_blocks<1>(key_, indices, indices.data());
}

void KeyedRandom::words(std::span<const std::uint64_t> blocks, std::span<std::uint64_t> words) const {
  SIM_CHECK(words.size() == 2 * blocks.size());
  all_blocks<2>(key_, blocks, words.data());
}

std::uint32_t KeyedRandom::below_of(std::uint64_t bits, std::uint32_t below) {
  SIM_CHECK(below >= 1);
  return high(std::uint64_t{high(bits)} * below);
}

}  // namespace sim
