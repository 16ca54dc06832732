#pragma once

/// The innermost part of a matrix product: a tile of sums that stays in registers while its terms go by.
///
/// Shapes  left: kTileRows values a term; right: kTileColumns values a term; both packed, a term after the
///         other, and `right` aligned as the tile is.
/// Exact   sum(i, j) starts from its old value and takes term k = 0, 1, 2, ... with one fma each: both
///         kernels give the same bits, so results do not depend on the machine. Whole numbers below 2^53 (of
///         doubles) are never rounded.

#include <cstddef>

namespace sim {

/// Twelve vector registers of sums; of the sixteen there are, three hold the right operand and one the left.
inline constexpr std::size_t kTileRows = 4;
template <typename Element>
inline constexpr std::size_t kTileColumns = 96 / sizeof(Element);

template <typename Element>
struct ProductTile {
  alignas(64) Element sums[kTileRows][kTileColumns<Element>];
};

template <typename Element>
using TileKernel = void (*)(const Element* left, const Element* right, std::size_t terms,
                            ProductTile<Element>& tile);

/// For every machine. Element is double or float.
template <typename Element>
void add_terms_plainly(const Element* left, const Element* right, std::size_t terms,
                       ProductTile<Element>& tile);

/// The fastest kernel that this machine can run.
template <typename Element>
TileKernel<Element> fastest_tile_kernel();

}  // namespace sim
