#include "sim/tensor/product_tile.h"

#include <cmath>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sim {

void add_terms_plainly(const double* left, const double* right, std::size_t terms, ProductTile& tile) {
  for (std::size_t term = 0; term < terms; ++term, left += kTileRows, right += kTileColumns) {
    for (std::size_t row = 0; row < kTileRows; ++row) {
      for (std::size_t column = 0; column < kTileColumns; ++column) {
        double& sum = tile.sums[row][column];
        sum = std::fma(left[row], right[column], sum);
      }
    }
  }
}

#if defined(__x86_64__)

namespace {

#define SIM_AVX2 __attribute__((target("avx2,fma")))  // the rest of the program runs on any x86-64

static_assert(kTileRows == 4 && kTileColumns == 12, "the kernel below names four rows of three vectors");

/// A row of the tile, or of the right operand, in three vector registers.
struct Row {
  __m256d first, second, third;
};

SIM_AVX2 inline Row load(const double* values) {
  return {_mm256_load_pd(values), _mm256_load_pd(values + 4), _mm256_load_pd(values + 8)};
}

SIM_AVX2 inline void store(const Row& row, double* values) {
  _mm256_store_pd(values, row.first);
  _mm256_store_pd(values + 4, row.second);
  _mm256_store_pd(values + 8, row.third);
}

SIM_AVX2 inline void add_term(const double* left, const Row& right, Row& sums) {
  const __m256d value = _mm256_broadcast_sd(left);
  sums.first = _mm256_fmadd_pd(value, right.first, sums.first);
  sums.second = _mm256_fmadd_pd(value, right.second, sums.second);
  sums.third = _mm256_fmadd_pd(value, right.third, sums.third);
}

SIM_AVX2 void add_terms_avx2(const double* left, const double* right, std::size_t terms, ProductTile& tile) {
  Row sums0 = load(tile.sums[0]);
  Row sums1 = load(tile.sums[1]);
  Row sums2 = load(tile.sums[2]);
  Row sums3 = load(tile.sums[3]);
  for (std::size_t term = 0; term < terms; ++term, left += kTileRows, right += kTileColumns) {
    const Row factors = load(right);
    add_term(left, factors, sums0);
    add_term(left + 1, factors, sums1);
    add_term(left + 2, factors, sums2);
    add_term(left + 3, factors, sums3);
  }
  store(sums0, tile.sums[0]);
  store(sums1, tile.sums[1]);
  store(sums2, tile.sums[2]);
  store(sums3, tile.sums[3]);
}

}  // namespace

TileKernel fastest_tile_kernel() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 ? add_terms_avx2 : add_terms_plainly;
}

#else

TileKernel fastest_tile_kernel() { return add_terms_plainly; }

#endif

}  // namespace sim
