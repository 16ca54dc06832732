#include "sim/tensor/shape.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

namespace {

/// The number of elements of the largest tensor. At 32 bytes each, they fill the address space.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 42;

[[noreturn]] void refuse_shape(const std::vector<std::int64_t>& sizes) {
  refuse({.code = "bad_shape",
          .option = "shape",
          .numbers = fmt::format("[{}]", fmt::join(sizes, ", ")),
          .rule = fmt::format("a shape has at most {} dimensions, none negative, and at most {} elements",
                              Shape::kMaxDimensions, kMaxCount),
          .hint = "fewer dimensions, or smaller ones"});
}

}  // namespace

void Shape::refuse(std::initializer_list<std::int64_t> sizes) { refuse_shape(sizes); }

/// An empty dimension counts as 1 here, so the product of the other dimensions cannot overflow.
void Shape::check_count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes_) {
    if (size < 0 || size > kMaxCount / count) {
      const auto past_last = sizes_.begin() + static_cast<std::ptrdiff_t>(dimensions_);
      refuse_shape({sizes_.begin(), past_last});
    }
    count *= std::max<std::int64_t>(size, 1);
  }
}

Shape Shape::with_rows(std::int64_t rows) const {
  SIM_CHECK(dimensions_ > 0);
  Shape result = *this;
  result.sizes_[0] = rows;
  result.check();
  return result;
}

Shape Shape::with_columns(std::int64_t columns) const {
  SIM_CHECK(dimensions_ > 0);
  Shape result = *this;
  result.sizes_[dimensions_ - 1] = columns;
  result.check();
  return result;
}

Shape Shape::with_appended(std::int64_t columns) const {
  SIM_CHECK(dimensions_ < kMaxDimensions);
  Shape result = *this;
  result.sizes_[result.dimensions_++] = columns;
  result.check();
  return result;
}

std::string text_of(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < shape.dimensions(); ++i) sizes.push_back(shape[i]);
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace sim
