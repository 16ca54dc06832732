#include "sim/cpu/product_tile.h"

#include <cmath>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sim/base/vectorised.h"

namespace sim {

template <typename Element>
void add_terms_plainly(const TileTerms<Element>& terms, const TileSums<Element>& sums) {
  for (std::size_t row = 0; row < sums.rows; ++row) {
    Element* const sum = sums.first + row * sums.row_step;
    for (std::size_t term = 0; term < terms.count; ++term) {
      const Element left = terms.left[row * terms.left_row_step + term * terms.left_term_step];
      const Element* const right = terms.right + term * terms.right_term_step;
      for (std::size_t column = 0; column < sums.columns; ++column)
        sum[column] = std::fma(left, right[column], sum[column]);
    }
  }
}

template void add_terms_plainly(const TileTerms<double>&, const TileSums<double>&);
template void add_terms_plainly(const TileTerms<float>&, const TileSums<float>&);

#if defined(__x86_64__)

namespace {

// Only these functions need AVX2 and fma; the rest of the program runs on any x86-64.
#define SIM_AVX2 [[gnu::target("avx2,fma"), gnu::always_inline]] static inline

struct Doubles {
  using Vector = __m256d;
  static constexpr std::size_t kWidth = 4;
  SIM_AVX2 Vector load(const double* values) { return _mm256_loadu_pd(values); }
  SIM_AVX2 Vector load(const double* values, __m256i mask) { return _mm256_maskload_pd(values, mask); }
  SIM_AVX2 Vector all(const double* value) { return _mm256_broadcast_sd(value); }
  SIM_AVX2 Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
  SIM_AVX2 void store(Vector vector, double* values) { _mm256_storeu_pd(values, vector); }
  SIM_AVX2 void store(Vector vector, double* values, __m256i mask) {
    _mm256_maskstore_pd(values, mask, vector);
  }
};

struct Floats {
  using Vector = __m256;
  static constexpr std::size_t kWidth = 8;
  SIM_AVX2 Vector load(const float* values) { return _mm256_loadu_ps(values); }
  SIM_AVX2 Vector load(const float* values, __m256i mask) { return _mm256_maskload_ps(values, mask); }
  SIM_AVX2 Vector all(const float* value) { return _mm256_broadcast_ss(value); }
  SIM_AVX2 Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  SIM_AVX2 void store(Vector vector, float* values) { _mm256_storeu_ps(values, vector); }
  SIM_AVX2 void store(Vector vector, float* values, __m256i mask) {
    _mm256_maskstore_ps(values, mask, vector);
  }
};

/// The mask of the first `elements` elements of a vector.
template <typename Of, typename Element>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i first_elements(std::size_t elements) {
  constexpr std::int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  static_assert(Of::kWidth * sizeof(Element) == sizeof(__m256i));
  const std::size_t words = elements * (sizeof(Element) / sizeof(std::int32_t));
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - words));
}

/// Numbers of rows and vectors are compile-time constants, so every sum has a register of its own. Where
/// `masked`, the last vector of a row has fewer elements than the others.
template <typename Of, typename Element, std::size_t kRows, std::size_t kVectors, bool masked>
[[gnu::target("avx2,fma")]] void add_terms_of(const TileTerms<Element>& terms,
                                              const TileSums<Element>& places) {
  using Vector = typename Of::Vector;
  const __m256i mask = first_elements<Of, Element>(places.columns - (kVectors - 1) * Of::kWidth);
  const std::size_t row_step = places.row_step;
  Element* const first = places.first;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Element* const from = first + row * row_step + v * Of::kWidth;
      sums[row][v] = masked && v == kVectors - 1 ? Of::load(from, mask) : Of::load(from);
    }
  }
  // The tile below is usually the next one.
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kRows; ++row) {
    const Element* const next = first + (kRows + row) * row_step;
    __builtin_prefetch(next);
    __builtin_prefetch(next + kVectors * Of::kWidth - 1);
  }
  const Element* left = terms.left;
  const Element* right = terms.right;
  const std::size_t left_row_step = terms.left_row_step;
  const std::size_t left_term_step = terms.left_term_step;
  const std::size_t right_term_step = terms.right_term_step;
  for (std::size_t term = terms.count; term > 0; --term, left += left_term_step, right += right_term_step) {
    Vector factors[kVectors];
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Element* const from = right + v * Of::kWidth;
      factors[v] = masked && v == kVectors - 1 ? Of::load(from, mask) : Of::load(from);
    }
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kRows; ++row) {
      const Vector value = Of::all(left + row * left_row_step);
#pragma GCC unroll 3
      for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = Of::fma(value, factors[v], sums[row][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) {
      Element* const to = first + row * row_step + v * Of::kWidth;
      if (masked && v == kVectors - 1) {
        Of::store(sums[row][v], to, mask);
      } else {
        Of::store(sums[row][v], to);
      }
    }
  }
}

template <typename Of, typename Element, std::size_t kRows>
constexpr TileKernel<Element> kKernelsOfRows[3][2] = {
    {add_terms_of<Of, Element, kRows, 1, false>, add_terms_of<Of, Element, kRows, 1, true>},
    {add_terms_of<Of, Element, kRows, 2, false>, add_terms_of<Of, Element, kRows, 2, true>},
    {add_terms_of<Of, Element, kRows, 3, false>, add_terms_of<Of, Element, kRows, 3, true>}};

template <typename Of, typename Element>
void add_terms_avx2(const TileTerms<Element>& terms, const TileSums<Element>& sums) {
  static_assert(kTileRows == 4 && kTileColumns<Element> == 3 * Of::kWidth);
  static constexpr const TileKernel<Element>(*kKernels[kTileRows])[2] = {
      kKernelsOfRows<Of, Element, 1>, kKernelsOfRows<Of, Element, 2>, kKernelsOfRows<Of, Element, 3>,
      kKernelsOfRows<Of, Element, 4>};
  const bool masked = sums.columns % Of::kWidth != 0;
  kKernels[sums.rows - 1][(sums.columns - 1) / Of::kWidth][masked ? 1 : 0](terms, sums);
}

}  // namespace

template <>
TileKernel<double> fastest_tile_kernel() {
  return has_avx2() ? add_terms_avx2<Doubles, double> : add_terms_plainly<double>;
}

template <>
TileKernel<float> fastest_tile_kernel() {
  return has_avx2() ? add_terms_avx2<Floats, float> : add_terms_plainly<float>;
}

#else

template <typename Element>
TileKernel<Element> fastest_tile_kernel() {
  return add_terms_plainly<Element>;
}

template TileKernel<double> fastest_tile_kernel();
template TileKernel<float> fastest_tile_kernel();

#endif

}  // namespace sim
