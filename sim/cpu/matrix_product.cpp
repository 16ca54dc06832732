#include "sim/cpu/matrix_product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "sim/base/field_sum.h"
#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/product_tile.h"

namespace sim {

namespace {

// A panel of the right operand fits into the first-level cache. It is packed once for each block of the left
// operand, whose panels stream past it.
constexpr std::size_t kBlockTerms = 256;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
static_assert(kBlockTerms <= kExactProducts, "each block of terms ends in a reduction");

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

/// Four floats that are moved at once.
using Floats = float __attribute__((vector_size(16)));
constexpr std::size_t kFloats = 4;

/// Makes the first terms of four lines adjacent.
inline void transpose(const float* from, std::size_t line_step, float* to, std::size_t to_step) {
  Floats lines[kFloats];
  for (std::size_t line = 0; line < kFloats; ++line)
    std::memcpy(&lines[line], from + line * line_step, sizeof(Floats));
  const Floats a = __builtin_shufflevector(lines[0], lines[1], 0, 4, 1, 5);
  const Floats b = __builtin_shufflevector(lines[2], lines[3], 0, 4, 1, 5);
  const Floats c = __builtin_shufflevector(lines[0], lines[1], 2, 6, 3, 7);
  const Floats d = __builtin_shufflevector(lines[2], lines[3], 2, 6, 3, 7);
  const Floats terms[kFloats] = {
      __builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
      __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (std::size_t term = 0; term < kFloats; ++term)
    std::memcpy(to + term * to_step, &terms[term], sizeof(Floats));
}

/// The terms of a block for up to `width` lines, one term after another, separately for each plane.
template <typename Scalar, std::size_t width>
struct Panel {
  using Element = typename Planes<Scalar>::Element;
  static constexpr std::size_t kPlanes = Planes<Scalar>::kCount;
  /// Lines whose terms are copied in turn. More of them, with steps of a page, would not fit into a cache.
  static constexpr std::size_t kGroup = 4;

  alignas(64) Element planes[kPlanes][kBlockTerms * width];

  /// Whole panels of adjacent lines are written out as such, so the compiler knows their counts and steps
  /// and makes straight-line code of them.
  void pack(const Lines<Scalar>& lines, std::size_t terms) {
    if (lines.line_step == 1) {
      if (lines.count == width) {
        copy(lines, 0, width, 1, 0, terms);
      } else {
        copy(lines, 0, lines.count, 1, 0, terms);
      }
      return;
    }
    for (std::size_t line = 0; line < lines.count; line += kGroup) {
      const std::size_t count = std::min(kGroup, lines.count - line);
      std::size_t term = 0;
      if constexpr (std::is_same_v<Scalar, float>) {
        if (count == kFloats && lines.term_step == 1) {
          for (; term + kFloats <= terms; term += kFloats) {
            transpose(lines.first + line * lines.line_step + term, lines.line_step,
                      planes[0] + term * width + line, width);
          }
        }
      }
      if (count == kGroup) {
        copy(lines, line, kGroup, lines.line_step, term, terms);
      } else {
        copy(lines, line, count, lines.line_step, term, terms);
      }
    }
  }

 private:
  [[gnu::always_inline]] void copy(const Lines<Scalar>& lines, std::size_t first_line, std::size_t count,
                                   std::size_t line_step, std::size_t first_term, std::size_t terms) {
    for (std::size_t term = first_term; term < terms; ++term) {
#pragma GCC unroll 24
      for (std::size_t line = first_line; line < first_line + count; ++line) {
        const Scalar& value = lines.first[line * line_step + term * lines.term_step];
#pragma GCC unroll kFieldLevels
        for (std::size_t plane = 0; plane < kPlanes; ++plane) {
          planes[plane][term * width + line] = Planes<Scalar>::get(value, plane);
        }
      }
    }
  }
};

/// The sums of one plane of a tile.
template <typename Sum>
class PlaneSums {
  using Element = typename Planes<Sum>::Element;

 public:
  PlaneSums(const TileSums<Sum>& sums, std::size_t plane) : of_(sums), plane_(plane) {
    for (std::size_t row = 0; row < of_.rows; ++row) {
      for (std::size_t column = 0; column < of_.columns; ++column)
        sums_[row][column] = Planes<Sum>::get(of_.first[row * of_.row_step + column], plane_);
    }
  }
  TileSums<Element> tile() { return {sums_[0], kTileColumns<Element>, of_.rows, of_.columns}; }
  void store() const {
    for (std::size_t row = 0; row < of_.rows; ++row) {
      for (std::size_t column = 0; column < of_.columns; ++column)
        Planes<Sum>::set(of_.first[row * of_.row_step + column], plane_, sums_[row][column]);
    }
  }

 private:
  const TileSums<Sum>& of_;
  std::size_t plane_;
  alignas(64) Element sums_[kTileRows][kTileColumns<Element>];
};

template <typename Scalar>
class MatrixProduct {
  using Element = typename Planes<Scalar>::Element;
  using Sum = typename Planes<Scalar>::Sum;
  static constexpr std::size_t kRows =
      kBlockBytes / (kBlockTerms * sizeof(Element) * Planes<Scalar>::kCount) / kTileRows * kTileRows;
  static constexpr std::size_t kColumns = kTileColumns<Element>;
  static constexpr bool kIsElement = std::is_same_v<Scalar, Element>;
  using LeftPanel = Panel<Scalar, kTileRows>;
  using RightPanel = Panel<Scalar, kColumns>;

 public:
  MatrixProduct(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b, Sum* out)
      : sizes_(sizes), a_(a), b_(b), out_(out) {}

  void add() {
    for (std::size_t term = 0; term < sizes_.terms; term += kBlockTerms) {
      for (std::size_t row = 0; row < sizes_.rows; row += kRows) {
        add_block(row, std::min(kRows, sizes_.rows - row), term, std::min(kBlockTerms, sizes_.terms - term));
      }
    }
  }

 private:
  // An operand is read where it lies if packing would cost more than it saves.
  /// Half of the first-level cache, in elements.
  static constexpr std::size_t kSmallOperand = 16384 / sizeof(Element);
  bool reads_left() const {
    const bool is_small = sizes_.rows * sizes_.terms <= kSmallOperand;
    const bool has_short_rows = a_.column_step == 1 && a_.row_step <= kBlockTerms;
    return kIsElement && (is_small || has_short_rows);
  }
  bool reads_right() const {
    const bool is_small = sizes_.terms * b_.row_step <= kSmallOperand;
    const bool is_read_once = sizes_.rows <= kTileRows;
    return kIsElement && b_.column_step == 1 && (is_small || is_read_once);
  }

  /// The panels of a block. A thread keeps them from one product to the next.
  struct Panels {
    std::unique_ptr<LeftPanel[]> left;
    std::size_t left_count = 0;
    std::unique_ptr<RightPanel> right;
  };
  static Panels& panels() {
    static thread_local Panels panels;
    return panels;
  }

  void add_block(std::size_t first_row, std::size_t rows, std::size_t first_term, std::size_t terms) {
    const Scalar* const left = a_.first + first_row * a_.row_step + first_term * a_.column_step;
    const Scalar* const right = b_.first + first_term * b_.row_step;
    if (!reads_left_) pack_left(left, rows, terms);
    for (std::size_t column = 0; column < sizes_.columns; column += kColumns) {
      const std::size_t columns = std::min(kColumns, sizes_.columns - column);
      const Scalar* const first = right + column * b_.column_step;
      if (!reads_right_) pack_right({first, columns, b_.column_step, b_.row_step}, terms);
      for (std::size_t row = 0; row < rows; row += kTileRows) {
        const TileSums<Sum> sums = {out_ + (first_row + row) * sizes_.columns + column, sizes_.columns,
                                    std::min(kTileRows, rows - row), columns};
        add_tile(left + row * a_.row_step, row / kTileRows, first, terms, sums);
      }
    }
  }

  void pack_left(const Scalar* first, std::size_t rows, std::size_t terms) {
    Panels& own = panels();
    const std::size_t count = (rows + kTileRows - 1) / kTileRows;
    if (own.left_count < count) {
      own.left = std::make_unique_for_overwrite<LeftPanel[]>(count);
      own.left_count = count;
    }
    for (std::size_t row = 0; row < rows; row += kTileRows) {
      own.left[row / kTileRows].pack(
          {first + row * a_.row_step, std::min(kTileRows, rows - row), a_.row_step, a_.column_step}, terms);
    }
  }

  void pack_right(const Lines<Scalar>& lines, std::size_t terms) {
    Panels& own = panels();
    if (own.right == nullptr) own.right = std::make_unique_for_overwrite<RightPanel>();
    own.right->pack(lines, terms);
  }

  void add_tile(const Scalar* left, std::size_t left_panel, const Scalar* right, std::size_t terms,
                const TileSums<Sum>& sums) {
    for (std::size_t plane = 0; plane < Planes<Scalar>::kCount; ++plane) {
      const TileTerms<Element> operands = tile_terms(left, left_panel, right, terms, plane);
      if constexpr (std::is_same_v<Sum, Element>) {
        kernel_(operands, sums);
      } else {
        PlaneSums<Sum> of_plane(sums, plane);
        kernel_(operands, of_plane.tile());
        of_plane.store();
      }
    }
  }

  TileTerms<Element> tile_terms(const Scalar* left, std::size_t left_panel, const Scalar* right,
                                std::size_t terms, std::size_t plane) const {
    TileTerms<Element> operands = {nullptr, 1, kTileRows, nullptr, kColumns, terms};
    if (!reads_left_) operands.left = panels().left[left_panel].planes[plane];
    if (!reads_right_) operands.right = panels().right->planes[plane];
    if constexpr (kIsElement) {
      if (reads_left_) {
        operands.left = left;
        operands.left_row_step = a_.row_step;
        operands.left_term_step = a_.column_step;
      }
      if (reads_right_) {
        operands.right = right;
        operands.right_term_step = b_.row_step;
      }
    }
    return operands;
  }

  ProductSizes sizes_;
  Strided<Scalar> a_;
  Strided<Scalar> b_;
  Sum* out_;
  bool reads_left_ = reads_left();
  bool reads_right_ = reads_right();
  TileKernel<Element> kernel_ = fastest_tile_kernel<Element>();
};

/// A product within both limits is too small for tiles to pay off: 5 rows, columns and terms are, and 6 are
/// not.
constexpr std::size_t kSmallRight = 128;  // elements of the right operand
constexpr std::size_t kSmallProducts = 128;

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
