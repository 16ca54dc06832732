#pragma once

/// The shape of a tensor: up to four dimensions, the last of which is contiguous. No dimension is
/// negative. A tensor without dimensions is a scalar with one element.
///
/// Errors  bad_shape: more than four dimensions, a negative dimension, or more than 2^42 elements (at 32
///         bytes each, they fill the address space).

#include <algorithm>
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
  Shape(std::initializer_list<std::int64_t> sizes) : dimensions_(sizes.size()) {
    if (sizes.size() > kMaxDimensions) refuse(sizes);
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
    check();
  }

  std::size_t dimensions() const { return dimensions_; }
  /// Returns the size of a dimension; 1 for dimensions beyond the last.
  std::int64_t operator[](std::size_t dimension) const {
    return dimension < kMaxDimensions ? sizes_[dimension] : 1;
  }
  /// Returns the number of elements.
  std::int64_t count() const { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }
  /// Returns the same shape with another first dimension. The shape must have at least one dimension.
  Shape with_rows(std::int64_t rows) const;
  /// Returns the same shape with another last dimension. The shape must have at least one dimension.
  Shape with_columns(std::int64_t columns) const;
  /// Returns the same shape with one more dimension at the end.
  Shape with_appended(std::int64_t columns) const;
  /// Returns the number of elements of one row, the product of all dimensions except the first.
  std::int64_t row_count() const { return sizes_[1] * sizes_[2] * sizes_[3]; }
  bool operator==(const Shape&) const = default;

 private:
  void check() const {
    if (!is_small()) check_count();
  }
  /// Whether each dimension is from 0 to 2^10 - 1, so that the elements are fewer than 2^40.
  bool is_small() const {
    return (static_cast<std::uint64_t>(sizes_[0] | sizes_[1] | sizes_[2] | sizes_[3]) >> 10) == 0;
  }
  void check_count() const;
  [[noreturn]] static void refuse(std::initializer_list<std::int64_t> sizes);

  std::array<std::int64_t, kMaxDimensions> sizes_ = {1, 1, 1, 1};
  std::size_t dimensions_ = 0;
};

/// Returns the shape as text: "[4, 8]".
std::string text_of(const Shape& shape);

}  // namespace sim
