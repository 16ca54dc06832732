#pragma once

/// The shape of a tensor: up to four dimensions, the last one contiguous. No dimension is negative; a tensor
/// of no dimensions is a scalar of one element.
///
/// Errors  bad_shape: more than four dimensions, a negative one, or more elements than memory has bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace sim {

class Shape {
 public:
  static constexpr std::size_t kMaxDimensions = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);

  std::size_t dimensions() const { return dimensions_; }
  /// The size of a dimension; 1 beyond the last.
  std::int64_t operator[](std::size_t dimension) const {
    return dimension < kMaxDimensions ? sizes_[dimension] : 1;
  }
  /// Elements.
  std::int64_t count() const { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }
  /// The same shape with another first dimension.
  Shape with_rows(std::int64_t rows) const;
  /// With another last dimension, of one at least.
  Shape with_columns(std::int64_t columns) const;
  /// With one dimension more, the last.
  Shape with_appended(std::int64_t columns) const;
  /// Elements of one row: everything but the first dimension.
  std::int64_t row_count() const { return sizes_[1] * sizes_[2] * sizes_[3]; }
  bool operator==(const Shape&) const = default;

 private:
  void check() const;

  std::array<std::int64_t, kMaxDimensions> sizes_ = {1, 1, 1, 1};
  std::size_t dimensions_ = 0;
};

/// "[4, 8]"
std::string text_of(const Shape& shape);

}  // namespace sim
