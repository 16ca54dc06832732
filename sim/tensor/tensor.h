#pragma once

/// A tensor: a shape, a dtype, a device and shared storage. Its C++ type does not depend on the scalar.
/// It is always contiguous and row-major. Copies and slices share storage. A default-constructed tensor
/// has no storage (is_none).
///
/// Shapes  up to four dimensions; offset and count are in elements of the dtype.
/// Errors  null_tensor, bad_slice, bad_reshape.

#include <cstdint>
#include <memory>

#include "sim/tensor/dtype.h"
#include "sim/tensor/shape.h"
#include "sim/tensor/storage.h"

namespace sim {

class Device;

/// Refuses a tensor that was never made (null_tensor).
[[noreturn]] void refuse_none(const char* user);

class Tensor {
 public:
  Tensor() = default;
  Tensor(Device& device, DType dtype, const Shape& shape, std::shared_ptr<Storage> storage)
      : device_(&device), storage_(std::move(storage)), shape_(shape), dtype_(dtype) {}

  bool is_none() const { return storage_ == nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t bytes() const { return count() * size_of(dtype_); }
  Device& device() const {
    if (is_none()) refuse_none("Tensor::device");
    return *device_;
  }

  /// Returns rows begin to end - 1 of the first dimension. Shares storage.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  /// Returns the same elements in another shape. Shares storage.
  Tensor reshaped(const Shape& shape) const;
  Tensor flat() const { return reshaped({count()}); }

  /// data() and range() say where the tensor lies in its storage, for kernels and for checks of overlap.
  std::byte* data() const { return storage().data() + offset_ * size_of(dtype_); }
  ByteRange range() const { return {offset_ * size_of(dtype_), (offset_ + count()) * size_of(dtype_)}; }
  Storage& storage() const {
    if (is_none()) refuse_none("Tensor::storage");
    return *storage_;
  }
  bool overlaps(const Tensor& other) const {
    return storage_ == other.storage_ && range().overlaps(other.range());
  }

 private:
  Device* device_ = nullptr;
  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f64;
};

}  // namespace sim
