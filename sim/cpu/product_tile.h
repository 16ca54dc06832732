#pragma once

/// The innermost part of a matrix product: a tile of sums that stays in registers while its terms are
/// added.
///
/// Shapes  left has kTileRows values per term, right has kTileColumns values per term. Both are packed,
///         one term after another, and `right` is aligned as the tile is.
/// Exact   sum(i, j) starts from its old value and takes term k = 0, 1, 2, ... with one fma each. Both
///         kernels give the same bits, so results do not depend on the machine. Integers below 2^53 (in
///         doubles) are never rounded.

#include <cstddef>

namespace sim {

/// The sums of a tile take twelve of the sixteen vector registers. Three others hold the right operand,
/// and one the left.
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

/// The kernel that runs on every machine. Element is double or float.
template <typename Element>
void add_terms_plainly(const Element* left, const Element* right, std::size_t terms,
                       ProductTile<Element>& tile);

/// Returns the fastest kernel that this machine can run.
template <typename Element>
TileKernel<Element> fastest_tile_kernel();

}  // namespace sim
