#include "sim/tensor/tensor.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

void refuse_none(const char* user) {
  refuse({.code = "null_tensor",
          .option = user,
          .numbers = "a tensor that no device has made, and that has no storage",
          .rule = "operations take tensors that a device has made",
          .hint = "a tensor of Device::empty(), filled() or keyed()"});
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (is_none()) refuse_none("Tensor::rows");
  if (shape_.dimensions() == 0 || begin < 0 || end < begin || end > shape_[0]) {
    refuse({.code = "bad_slice",
            .option = "Tensor::rows",
            .numbers = fmt::format("rows {} to {} of {}", begin, end, text_of(shape_)),
            .rule = "0 <= begin <= end <= the first dimension",
            .hint = "a range from 0 to the size of the first dimension"});
  }
  Tensor slice = *this;
  slice.offset_ += begin * shape_.row_count();
  slice.shape_ = shape_.with_rows(end - begin);
  return slice;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (is_none()) refuse_none("Tensor::reshaped");
  if (shape.count() != count()) {
    refuse({.code = "bad_reshape",
            .option = "Tensor::reshaped",
            .numbers = fmt::format("{} to {}: {} elements to {}", text_of(shape_), text_of(shape), count(),
                                   shape.count()),
            .rule = "the new shape has as many elements as the tensor",
            .hint = "a shape with that many elements"});
  }
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

}  // namespace sim
