#include "sim/cpu/matrix_product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

#include "sim/base/field_sum.h"
#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/product_tile.h"

namespace sim {

namespace {

// A block of the left operand fits into the second-level cache, and a panel of the right operand fits into
// the first-level cache.
constexpr std::size_t kBlockTerms = 256;
constexpr std::size_t kBlockRows = 128;
static_assert(kBlockTerms <= kExactProducts, "each block of terms ends in a reduction");
static_assert(kBlockRows % kTileRows == 0);

/// Splits a scalar into planes, which the tile kernel multiplies one by one. Its sums may be wider than
/// the scalar.
template <typename Scalar>
struct Planes;

template <>
struct Planes<double> {
  using Element = double;
  using Sum = double;
  static constexpr std::size_t kCount = 1;
  static double get(double value, std::size_t) { return value; }
  static void set(double& value, std::size_t, double sum) { value = sum; }
};

template <>
struct Planes<float> {
  using Element = float;
  using Sum = float;
  static constexpr std::size_t kCount = 1;
  static float get(float value, std::size_t) { return value; }
  static void set(float& value, std::size_t, float sum) { value = sum; }
};

template <>
struct Planes<bfloat16> {
  using Element = float;
  using Sum = float;
  static constexpr std::size_t kCount = 1;
  static float get(bfloat16 value, std::size_t) { return to_float(value); }
};

template <>
struct Planes<Field> {
  using Element = double;
  using Sum = Field;
  static constexpr std::size_t kCount = kFieldLevels;
  static double get(const Field& value, std::size_t level) { return value.residues[level]; }
  static void set(Field& value, std::size_t level, double sum) {
    value.residues[level] = reduced(sum, level);
  }
};

/// Rows of the left operand, or columns of the right one: as many as a tile has, or fewer at the edge of
/// the matrix.
template <typename Scalar>
struct Lines {
  const Scalar* first;
  std::size_t count;
  std::size_t line_step;
  std::size_t term_step;
};

/// The terms of a block for as many lines as a tile has, one term after another, separately for each
/// plane.
template <typename Scalar, std::size_t width>
struct Panel {
  using Element = typename Planes<Scalar>::Element;
  static constexpr std::size_t kPlanes = Planes<Scalar>::kCount;

  alignas(64) Element planes[kPlanes][kBlockTerms * width];

  /// Lines beyond the edge of the matrix become 0. Whole panels, and whole panels of adjacent lines, are
  /// the usual cases. They are written out as such, so the compiler knows their counts and steps and
  /// makes straight-line code of each.
  void pack(const Lines<Scalar>& lines, std::size_t terms) {
    if (lines.count < width) {
      for (auto& plane : planes) std::fill_n(plane, terms * width, Element{});
      copy(lines.first, lines.count, lines.line_step, lines.term_step, terms);
    } else if (lines.line_step == 1) {
      copy(lines.first, width, 1, lines.term_step, terms);
    } else {
      copy(lines.first, width, lines.line_step, lines.term_step, terms);
    }
  }

 private:
  [[gnu::always_inline]] void copy(const Scalar* first, std::size_t count, std::size_t line_step,
                                   std::size_t term_step, std::size_t terms) {
    for (std::size_t term = 0; term < terms; ++term) {
#pragma GCC unroll 24
      for (std::size_t line = 0; line < count; ++line) {
        const Scalar& value = first[line * line_step + term * term_step];
#pragma GCC unroll kFieldLevels
        for (std::size_t plane = 0; plane < kPlanes; ++plane) {
          planes[plane][term * width + line] = Planes<Scalar>::get(value, plane);
        }
      }
    }
  }
};

/// The part of the result that a tile covers, which is less than a tile at the edges. As with panels, the
/// whole tile is a case of its own.
template <typename Sum>
struct TilePlace {
  using Tile = ProductTile<typename Planes<Sum>::Element>;
  static constexpr std::size_t kColumns = kTileColumns<typename Planes<Sum>::Element>;

  Sum* first;
  std::size_t row_step;
  std::size_t rows;
  std::size_t columns;

  bool is_whole() const { return rows == kTileRows && columns == kColumns; }

  void load(std::size_t plane, Tile& tile) const {
    if (is_whole()) {
      load_part(plane, tile, kTileRows, kColumns);
    } else {
      load_part(plane, tile, rows, columns);
    }
  }

  void store(std::size_t plane, const Tile& tile) const {
    if (is_whole()) {
      store_part(plane, tile, kTileRows, kColumns);
    } else {
      store_part(plane, tile, rows, columns);
    }
  }

 private:
  [[gnu::always_inline]] void load_part(std::size_t plane, Tile& tile, std::size_t row_count,
                                        std::size_t column_count) const {
    for (std::size_t row = 0; row < row_count; ++row) {
#pragma GCC unroll 24
      for (std::size_t column = 0; column < column_count; ++column) {
        tile.sums[row][column] = Planes<Sum>::get(first[row * row_step + column], plane);
      }
    }
  }

  [[gnu::always_inline]] void store_part(std::size_t plane, const Tile& tile, std::size_t row_count,
                                         std::size_t column_count) const {
    for (std::size_t row = 0; row < row_count; ++row) {
#pragma GCC unroll 24
      for (std::size_t column = 0; column < column_count; ++column) {
        Planes<Sum>::set(first[row * row_step + column], plane, tile.sums[row][column]);
      }
    }
  }
};

template <typename Scalar>
class MatrixProduct {
  using Element = typename Planes<Scalar>::Element;
  using Sum = typename Planes<Scalar>::Sum;
  static constexpr std::size_t kColumns = kTileColumns<Element>;
  using LeftPanel = Panel<Scalar, kTileRows>;
  using RightPanel = Panel<Scalar, kColumns>;

 public:
  MatrixProduct(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b, Sum* out)
      : sizes_(sizes),
        a_(a),
        b_(b),
        out_(out),
        left_(std::make_unique_for_overwrite<LeftPanel[]>((std::min(kBlockRows, sizes.rows) + kTileRows - 1) /
                                                          kTileRows)) {}

  void add() {
    for (std::size_t term = 0; term < sizes_.terms; term += kBlockTerms) {
      for (std::size_t row = 0; row < sizes_.rows; row += kBlockRows) {
        add_block(row, term, std::min(kBlockTerms, sizes_.terms - term));
      }
    }
  }

 private:
  void add_block(std::size_t first_row, std::size_t first_term, std::size_t terms) {
    const std::size_t end_row = std::min(first_row + kBlockRows, sizes_.rows);
    for (std::size_t row = first_row; row < end_row; row += kTileRows) {
      const Scalar* first = a_.first + row * a_.row_step + first_term * a_.column_step;
      const std::size_t rows = std::min(kTileRows, end_row - row);
      left_[(row - first_row) / kTileRows].pack({first, rows, a_.row_step, a_.column_step}, terms);
    }
    for (std::size_t column = 0; column < sizes_.columns; column += kColumns) {
      const Scalar* first = b_.first + first_term * b_.row_step + column * b_.column_step;
      const std::size_t columns = std::min(kColumns, sizes_.columns - column);
      right_->pack({first, columns, b_.column_step, b_.row_step}, terms);
      add_panel(first_row, end_row, column, columns, terms);
    }
  }

  void add_panel(std::size_t first_row, std::size_t end_row, std::size_t column, std::size_t columns,
                 std::size_t terms) {
    for (std::size_t plane = 0; plane < Planes<Scalar>::kCount; ++plane) {
      for (std::size_t row = first_row; row < end_row; row += kTileRows) {
        const TilePlace<Sum> place = {out_ + row * sizes_.columns + column, sizes_.columns,
                                      std::min(kTileRows, end_row - row), columns};
        ProductTile<Element> tile = {};
        place.load(plane, tile);
        kernel_(left_[(row - first_row) / kTileRows].planes[plane], right_->planes[plane], terms, tile);
        place.store(plane, tile);
      }
    }
  }

  ProductSizes sizes_;
  Strided<Scalar> a_;
  Strided<Scalar> b_;
  Sum* out_;
  TileKernel<Element> kernel_ = fastest_tile_kernel<Element>();
  std::unique_ptr<LeftPanel[]> left_;
  std::unique_ptr<RightPanel> right_ = std::make_unique_for_overwrite<RightPanel>();
};

/// A product within both limits is too small for packing to pay off.
constexpr std::size_t kSmallRight = 2048;  // elements of the right operand
constexpr std::size_t kSmallProducts = 32768;

bool is_small(ProductSizes sizes) {
  return sizes.terms * sizes.columns <= kSmallRight &&
         sizes.rows * sizes.terms * sizes.columns <= kSmallProducts;
}

/// Adds row by row: each term of the left operand times a row of the right one.
template <typename Scalar>
void add_small(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b, typename Planes<Scalar>::Sum* out) {
  using Element = typename Planes<Scalar>::Element;
  std::array<Element, kSmallRight> right;
  for (std::size_t term = 0; term < sizes.terms; ++term) {
    for (std::size_t column = 0; column < sizes.columns; ++column) {
      right[term * sizes.columns + column] =
          Planes<Scalar>::get(b.first[term * b.row_step + column * b.column_step], 0);
    }
  }
  vectorised([&] {
    for (std::size_t row = 0; row < sizes.rows; ++row) {
      Element* __restrict sums = out + row * sizes.columns;
      for (std::size_t term = 0; term < sizes.terms; ++term) {
        const Element left = Planes<Scalar>::get(a.first[row * a.row_step + term * a.column_step], 0);
        const Element* __restrict factors = right.data() + term * sizes.columns;
        for (std::size_t column = 0; column < sizes.columns; ++column) {
          sums[column] = std::fma(left, factors[column], sums[column]);
        }
      }
    }
  });
}

/// Adds element by element; the levels of an element form a vector.
void add_small(ProductSizes sizes, Strided<Field> a, Strided<Field> b, Field* out) {
  vectorised([&] {
    for (std::size_t row = 0; row < sizes.rows; ++row) {
      for (std::size_t column = 0; column < sizes.columns; ++column) {
        FieldSum sum;
        sum.add(out[row * sizes.columns + column]);
        for (std::size_t term = 0; term < sizes.terms; ++term) {
          sum.add_product(a.first[row * a.row_step + term * a.column_step],
                          b.first[term * b.row_step + column * b.column_step]);
        }
        out[row * sizes.columns + column] = sum.value();
      }
    }
  });
}

template <typename Scalar>
void add(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b, typename Planes<Scalar>::Sum* out) {
  if (is_small(sizes)) {
    add_small(sizes, a, b, out);
  } else {
    MatrixProduct<Scalar>(sizes, a, b, out).add();
  }
}

}  // namespace

void add_matrix_product(ProductSizes sizes, Strided<double> a, Strided<double> b, double* out) {
  add(sizes, a, b, out);
}

void add_matrix_product(ProductSizes sizes, Strided<float> a, Strided<float> b, float* out) {
  add(sizes, a, b, out);
}

void add_matrix_product(ProductSizes sizes, Strided<bfloat16> a, Strided<bfloat16> b, float* out) {
  add(sizes, a, b, out);
}

void add_matrix_product(ProductSizes sizes, Strided<Field> a, Strided<Field> b, Field* out) {
  add(sizes, a, b, out);
}

}  // namespace sim
