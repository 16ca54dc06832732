#pragma once

/// The innermost part of a matrix product: a tile of sums that stays in registers while its terms go by.
///
/// Shapes  left: kTileRows values a term; right: kTileColumns values a term; both packed, a term after the
///         other, and `right` aligned as the tile is.
/// Exact   sum(i, j) starts from its old value and takes term k = 0, 1, 2, ... with one fma each: both
///         kernels give the same bits, so results do not depend on the machine. Whole numbers below 2^53 are
///         never rounded.

#include <cstddef>
#include <cstdint>

namespace sim {

/// Twelve registers of four sums; of the sixteen there are, three hold the right operand and one the left.
inline constexpr std::size_t kTileRows = 4;
inline constexpr std::size_t kTileColumns = 12;

struct ProductTile {
  alignas(64) double sums[kTileRows][kTileColumns];
};

using TileKernel = void (*)(const double* left, const double* right, std::size_t terms, ProductTile& tile);

/// For every machine.
void add_terms_plainly(const double* left, const double* right, std::size_t terms, ProductTile& tile);

/// The fastest kernel that this machine can run.
TileKernel fastest_tile_kernel();

}  // namespace sim
