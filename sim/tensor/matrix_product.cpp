#include "sim/tensor/matrix_product.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "sim/tensor/product_tile.h"

namespace sim {

namespace {

// A block of the left operand lies in the second-level cache, a panel of the right one in the first.
constexpr std::size_t kBlockTerms = 256;
constexpr std::size_t kBlockRows = 128;
static_assert(kBlockTerms <= kExactProducts, "each block of terms ends in a reduction");
static_assert(kBlockRows % kTileRows == 0);

/// What a scalar is made of: planes of doubles that the kernel multiplies each for itself.
template <typename Scalar>
struct Planes;

template <>
struct Planes<double> {
  static constexpr std::size_t kCount = 1;
  static double get(double value, std::size_t) { return value; }
  static void set(double& value, std::size_t, double sum) { value = sum; }
};

template <>
struct Planes<Field> {
  static constexpr std::size_t kCount = kFieldLevels;
  static double get(const Field& value, std::size_t level) { return value.residues[level]; }
  static void set(Field& value, std::size_t level, double sum) {
    value.residues[level] = reduced(sum, level);
  }
};

/// Rows of the left operand, or columns of the right one: those of a tile, or fewer at the edge of the
/// matrix.
template <typename Scalar>
struct Lines {
  const Scalar* first;
  std::size_t count;
  std::size_t line_step;
  std::size_t term_step;
};

/// The terms of a block for as many lines as a tile has, term after term, each plane for itself.
template <typename Scalar, std::size_t width>
struct Panel {
  static constexpr std::size_t kPlanes = Planes<Scalar>::kCount;

  alignas(64) double planes[kPlanes][kBlockTerms * width];

  /// Lines beyond the edge of the matrix are 0. Whole panels, and those of adjacent lines, are the usual
  /// ones: the compiler makes straight code of each, for it knows their counts and steps.
  void pack(const Lines<Scalar>& lines, std::size_t terms) {
    if (lines.count < width) {
      for (auto& plane : planes) std::fill_n(plane, terms * width, 0.0);
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
#pragma GCC unroll 16
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

/// The part of the result that a tile covers: less than a tile at the edges. As for panels, the whole one is
/// a case of its own.
template <typename Scalar>
struct TilePlace {
  Scalar* first;
  std::size_t row_step;
  std::size_t rows;
  std::size_t columns;

  bool is_whole() const { return rows == kTileRows && columns == kTileColumns; }

  void load(std::size_t plane, ProductTile& tile) const {
    if (is_whole()) {
      load_part(plane, tile, kTileRows, kTileColumns);
    } else {
      load_part(plane, tile, rows, columns);
    }
  }

  void store(std::size_t plane, const ProductTile& tile) const {
    if (is_whole()) {
      store_part(plane, tile, kTileRows, kTileColumns);
    } else {
      store_part(plane, tile, rows, columns);
    }
  }

 private:
  [[gnu::always_inline]] void load_part(std::size_t plane, ProductTile& tile, std::size_t row_count,
                                        std::size_t column_count) const {
    for (std::size_t row = 0; row < row_count; ++row) {
#pragma GCC unroll 16
      for (std::size_t column = 0; column < column_count; ++column) {
        tile.sums[row][column] = Planes<Scalar>::get(first[row * row_step + column], plane);
      }
    }
  }

  [[gnu::always_inline]] void store_part(std::size_t plane, const ProductTile& tile, std::size_t row_count,
                                         std::size_t column_count) const {
    for (std::size_t row = 0; row < row_count; ++row) {
#pragma GCC unroll 16
      for (std::size_t column = 0; column < column_count; ++column) {
        Planes<Scalar>::set(first[row * row_step + column], plane, tile.sums[row][column]);
      }
    }
  }
};

template <typename Scalar>
class MatrixProduct {
  using LeftPanel = Panel<Scalar, kTileRows>;
  using RightPanel = Panel<Scalar, kTileColumns>;

 public:
  MatrixProduct(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b, Scalar* out)
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
    for (std::size_t column = 0; column < sizes_.columns; column += kTileColumns) {
      const Scalar* first = b_.first + first_term * b_.row_step + column * b_.column_step;
      const std::size_t columns = std::min(kTileColumns, sizes_.columns - column);
      right_->pack({first, columns, b_.column_step, b_.row_step}, terms);
      add_panel(first_row, end_row, column, columns, terms);
    }
  }

  void add_panel(std::size_t first_row, std::size_t end_row, std::size_t column, std::size_t columns,
                 std::size_t terms) {
    for (std::size_t plane = 0; plane < Planes<Scalar>::kCount; ++plane) {
      for (std::size_t row = first_row; row < end_row; row += kTileRows) {
        const TilePlace<Scalar> place = {out_ + row * sizes_.columns + column, sizes_.columns,
                                         std::min(kTileRows, end_row - row), columns};
        ProductTile tile = {};
        place.load(plane, tile);
        kernel_(left_[(row - first_row) / kTileRows].planes[plane], right_->planes[plane], terms, tile);
        place.store(plane, tile);
      }
    }
  }

  ProductSizes sizes_;
  Strided<Scalar> a_;
  Strided<Scalar> b_;
  Scalar* out_;
  TileKernel kernel_ = fastest_tile_kernel();
  std::unique_ptr<LeftPanel[]> left_;
  std::unique_ptr<RightPanel> right_ = std::make_unique_for_overwrite<RightPanel>();
};

}  // namespace

void add_matrix_product(ProductSizes sizes, Strided<double> a, Strided<double> b, double* out) {
  MatrixProduct<double>(sizes, a, b, out).add();
}

void add_matrix_product(ProductSizes sizes, Strided<Field> a, Strided<Field> b, Field* out) {
  MatrixProduct<Field>(sizes, a, b, out).add();
}

}  // namespace sim
