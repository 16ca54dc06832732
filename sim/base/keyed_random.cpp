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

/// The number of indices that are replaced at once: as many as an element of the field has words.
constexpr std::size_t kAtOnce = 4;
/// So many are replaced at once where there are enough: the rounds of one word wait for each other.
constexpr std::size_t kManyAtOnce = 8;

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

#if defined(__x86_64__)

/// The same as run_rounds() (philox.h), with 64 bits a lane, of which a product reads the lower half, so that
/// no word changes its lane.
template <std::size_t lanes>
[[gnu::target("avx2")]] void replace_some_avx2(std::uint64_t key, std::uint64_t* indices) {
  constexpr std::size_t kVectors = lanes / 4;
  constexpr int kRounds = 10;
  const __m256i multiplier0 = _mm256_set1_epi64x(0xd2511f53), multiplier1 = _mm256_set1_epi64x(0xcd9e8d57);
  auto* const words = reinterpret_cast<__m256i*>(indices);
  std::uint32_t key0 = low(key), key1 = high(key);
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) {
    c0[v] = _mm256_loadu_si256(words + v);
    c1[v] = _mm256_srli_epi64(c0[v], 32);
    c2[v] = c3[v] = _mm256_setzero_si256();
  }
#pragma GCC unroll kRounds
  for (int round = 0; round < kRounds; ++round) {
    const __m256i round_key0 = _mm256_set1_epi64x(key0), round_key1 = _mm256_set1_epi64x(key1);
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __m256i product0 = _mm256_mul_epu32(c0[v], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1[v]), round_key0);
      c1[v] = product1;
      c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3[v]), round_key1);
      c3[v] = product0;
    }
    key0 += 0x9e3779b9U;
    key1 += 0xbb67ae85U;
  }
  constexpr int kOddWords = 0xaa;
#pragma GCC unroll 2
  for (std::size_t v = 0; v < kVectors; ++v) {
    const __m256i joined = _mm256_blend_epi32(c0[v], _mm256_slli_epi64(c1[v], 32), kOddWords);
    _mm256_storeu_si256(words + v, joined);
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

std::uint32_t KeyedRandom::below_of(std::uint64_t bits, std::uint32_t below) {
  CHECK(below >= 1);
  return high(std::uint64_t{high(bits)} * below);
}

}  // namespace sim
