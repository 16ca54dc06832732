#pragma once

/// The views that collectives move: ranges of a tensor's elements, and the block that a tensor holds for each
/// place of a group.
///
/// Shapes  a block has `count` elements; block p begins at element p * count of the flat tensor.
/// Exact   a copy of zero elements is skipped, because tensors without elements need no memory.

#include "sim/tensor/device.h"

namespace sim {

/// Returns a view of the elements begin to end - 1 of the flat tensor.
inline Tensor elements(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  return tensor.flat().rows(begin, end);
}

/// Returns a view of the block that belongs to a place.
inline Tensor block(const Tensor& tensor, std::int64_t count, std::int64_t place) {
  return elements(tensor, place * count, (place + 1) * count);
}

/// Copies all elements. Both tensors must have the same number of elements; their shapes may differ.
inline void copy_elements(const Tensor& from, Tensor to) {
  if (to.count() > 0) to.device().copy(from, to);
}

}  // namespace sim
