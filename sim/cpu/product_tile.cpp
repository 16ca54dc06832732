#include "sim/cpu/product_tile.h"

#include <cmath>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sim/base/vectorised.h"

namespace sim {

template <typename Element>
void add_terms_plainly(const Element* left, const Element* right, std::size_t terms,
                       ProductTile<Element>& tile) {
  for (std::size_t term = 0; term < terms; ++term, left += kTileRows, right += kTileColumns<Element>) {
    for (std::size_t row = 0; row < kTileRows; ++row) {
      for (std::size_t column = 0; column < kTileColumns<Element>; ++column) {
        Element& sum = tile.sums[row][column];
        sum = std::fma(left[row], right[column], sum);
      }
    }
  }
}

template void add_terms_plainly(const double*, const double*, std::size_t, ProductTile<double>&);
template void add_terms_plainly(const float*, const float*, std::size_t, ProductTile<float>&);

#if defined(__x86_64__)

namespace {

// Only these functions need AVX2 and fma; the rest of the program runs on any x86-64.
#define SIM_AVX2 [[gnu::target("avx2,fma"), gnu::always_inline]] static inline

struct Doubles {
  using Vector = __m256d;
  SIM_AVX2 Vector load(const double* values) { return _mm256_load_pd(values); }
  SIM_AVX2 Vector all(const double* value) { return _mm256_broadcast_sd(value); }
  SIM_AVX2 Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
  SIM_AVX2 void store(Vector vector, double* values) { _mm256_store_pd(values, vector); }
};

struct Floats {
  using Vector = __m256;
  SIM_AVX2 Vector load(const float* values) { return _mm256_load_ps(values); }
  SIM_AVX2 Vector all(const float* value) { return _mm256_broadcast_ss(value); }
  SIM_AVX2 Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  SIM_AVX2 void store(Vector vector, float* values) { _mm256_store_ps(values, vector); }
};

/// Numbers of rows and columns are compile-time constants, so every sum has a register of its own.
template <typename Of, typename Element>
[[gnu::target("avx2,fma")]] void add_terms_avx2(const Element* left, const Element* right, std::size_t terms,
                                                ProductTile<Element>& tile) {
  using Vector = typename Of::Vector;
  constexpr std::size_t kVectors = 3;
  constexpr std::size_t kWidth = sizeof(Vector) / sizeof(Element);
  static_assert(kVectors * kWidth == kTileColumns<Element>);
  Vector sums[kTileRows][kVectors];
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = Of::load(tile.sums[row] + v * kWidth);
  }
  for (std::size_t term = 0; term < terms; ++term, left += kTileRows, right += kTileColumns<Element>) {
    Vector factors[kVectors];
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) factors[v] = Of::load(right + v * kWidth);
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kTileRows; ++row) {
      const Vector value = Of::all(left + row);
#pragma GCC unroll 3
      for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = Of::fma(value, factors[v], sums[row][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 3
    for (std::size_t v = 0; v < kVectors; ++v) Of::store(sums[row][v], tile.sums[row] + v * kWidth);
  }
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
