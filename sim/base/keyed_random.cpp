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

/// The third word of the counters of words(). That of bits() is 0.
constexpr std::uint32_t kWordsTag = 0x776f7264U;

template <std::size_t lanes>
void replace_some(std::uint64_t key, std::uint64_t* indices) {
  std::uint32_t counters[4][lanes] = {};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    counters[0][lane] = low(indices[lane]);
    counters[1][lane] = high(indices[lane]);
  }
  run_rounds(counters, low(key), high(key));
  for (std::size_t lane = 0; lane < lanes; ++lane) indices[lane] = join(counters[0][lane], counters[1][lane]);
}

template <std::size_t lanes>
void some_words(std::uint64_t key, const std::uint64_t* blocks, std::uint64_t* words) {
  std::uint32_t counters[4][lanes] = {};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    counters[0][lane] = low(blocks[lane]);
    counters[1][lane] = high(blocks[lane]);
    counters[2][lane] = kWordsTag;
  }
  run_rounds(counters, low(key), high(key));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    words[2 * lane] = join(counters[0][lane], counters[1][lane]);
    words[2 * lane + 1] = join(counters[2][lane], counters[3][lane]);
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

template <std::size_t lanes>
[[gnu::target("avx2")]] void replace_some_avx2(std::uint64_t key, std::uint64_t* indices) {
  constexpr std::size_t kVectors = lanes / 4;
  Counters<kVectors> c;
  start(c, indices, 0);
  run_rounds_avx2(c, key);
  auto* const to = reinterpret_cast<__m256i*>(indices);
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) _mm256_storeu_si256(to + v, joined(c.c0[v], c.c1[v]));
}

template <std::size_t lanes>
[[gnu::target("avx2")]] void some_words_avx2(std::uint64_t key, const std::uint64_t* blocks,
                                             std::uint64_t* words) {
  constexpr std::size_t kVectors = lanes / 4;
  constexpr int kLowerHalves = 0x20, kUpperHalves = 0x31;
  Counters<kVectors> c;
  start(c, blocks, kWordsTag);
  run_rounds_avx2(c, key);
  auto* const to = reinterpret_cast<__m256i*>(words);
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) {
    const __m256i first = joined(c.c0[v], c.c1[v]), second = joined(c.c2[v], c.c3[v]);
    const __m256i even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
    _mm256_storeu_si256(to + 2 * v, _mm256_permute2x128_si256(even, odd, kLowerHalves));
    _mm256_storeu_si256(to + 2 * v + 1, _mm256_permute2x128_si256(even, odd, kUpperHalves));
  }
}

#endif

}  // namespace

void KeyedRandom::bits(std::span<std::uint64_t> indices) const {
#if defined(__x86_64__)
  const bool has_vectors = has_avx2();
  const auto replace_many = has_vectors ? replace_some_avx2<kManyAtOnce> : replace_some<kManyAtOnce>;
  const auto replace = has_vectors ? replace_some_avx2<kAtOnce> : replace_some<kAtOnce>;
#else
  const auto replace_many = replace_some<kManyAtOnce>;
  const auto replace = replace_some<kAtOnce>;
#endif
  std::uint64_t* next = indices.data();
  std::size_t left = indices.size();
  for (; left >= kManyAtOnce; next += kManyAtOnce, left -= kManyAtOnce) replace_many(key_, next);
  for (; left >= kAtOnce; next += kAtOnce, left -= kAtOnce) replace(key_, next);
  if (left == 0) return;
  std::array<std::uint64_t, kAtOnce> last{};
  std::copy_n(next, left, last.begin());
  replace(key_, last.data());
  std::copy_n(last.begin(), left, next);
}

void KeyedRandom::words(std::span<const std::uint64_t> blocks, std::span<std::uint64_t> words) const {
  CHECK(words.size() == 2 * blocks.size());
#if defined(__x86_64__)
  const bool has_vectors = has_avx2();
  const auto many = has_vectors ? some_words_avx2<kManyAtOnce> : some_words<kManyAtOnce>;
  const auto some = has_vectors ? some_words_avx2<kAtOnce> : some_words<kAtOnce>;
#else
  const auto many = some_words<kManyAtOnce>;
  const auto some = some_words<kAtOnce>;
#endif
  const std::uint64_t* next = blocks.data();
  std::uint64_t* to = words.data();
  std::size_t left = blocks.size();
  for (; left >= kManyAtOnce; next += kManyAtOnce, to += 2 * kManyAtOnce, left -= kManyAtOnce)
    many(key_, next, to);
  for (; left >= kAtOnce; next += kAtOnce, to += 2 * kAtOnce, left -= kAtOnce) some(key_, next, to);
  if (left == 0) return;
  std::array<std::uint64_t, kAtOnce> last_blocks{};
  std::array<std::uint64_t, 2 * kAtOnce> last_words{};
  std::copy_n(next, left, last_blocks.begin());
  some(key_, last_blocks.data(), last_words.data());
  std::copy_n(last_words.begin(), 2 * left, to);
}

std::uint32_t KeyedRandom::below_of(std::uint64_t bits, std::uint32_t below) {
  CHECK(below >= 1);
  return high(std::uint64_t{high(bits)} * below);
}

}  // namespace sim
