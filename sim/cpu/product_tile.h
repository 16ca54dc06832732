#pragma once

/// The innermost part of a matrix product: a tile of sums that stays in registers while its terms are added.
///
/// Shapes  a tile has up to kTileRows rows and up to kTileColumns columns. The value of row i in term k is
///         left[i * left_row_step + k * left_term_step], that of column j is right[k * right_term_step + j],
///         and their sum is sums[i * row_step + j]. Nothing else is read or written.
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
struct TileTerms {
  const Element* left;
  std::size_t left_row_step;
  std::size_t left_term_step;
  const Element* right;
  std::size_t right_term_step;
  std::size_t count;
};

template <typename Element>
struct TileSums {
  Element* first;
  std::size_t row_step;
  std::size_t rows;
  std::size_t columns;
};

template <typename Element>
using TileKernel = void (*)(const TileTerms<Element>& terms, const TileSums<Element>& sums);

/// The kernel that runs on every machine. Element is double or float.
template <typename Element>
void add_terms_plainly(const TileTerms<Element>& terms, const TileSums<Element>& sums);

/// Returns the fastest kernel that this machine can run.
template <typename Element>
TileKernel<Element> fastest_tile_kernel();

}  // namespace sim
