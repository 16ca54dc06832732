#pragma once

/// What collectives move: stretches of a tensor's elements, and the blocks that each place of a group has.
///
/// Shapes  a block is `count` elements; block p of a tensor lies behind p others.
/// Exact   nothing of no elements is copied: such tensors need no memory.

#include "sim/tensor/device.h"

namespace sim {

/// Elements begin to end - 1, flat.
inline Tensor elements(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  return tensor.flat().rows(begin, end);
}

inline Tensor block(const Tensor& tensor, std::int64_t count, std::int64_t place) {
  return elements(tensor, place * count, (place + 1) * count);
}

/// As many elements, in whatever shapes.
inline void copy_elements(const Tensor& from, Tensor to) {
  if (to.count() > 0) to.device().copy(from, to);
}

}  // namespace sim
