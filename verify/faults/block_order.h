#pragma once

/// The blocks of a tensor, one for each place of a group, and the tensor with its blocks in another order.

#include "sim/tensor/device.h"

namespace verify {

/// Returns a block of the elements.
inline sim::Tensor block_of(const sim::Tensor& x, int place, int places) {
  const std::int64_t count = x.count() / places;
  return x.flat().rows(place * count, (place + 1) * count);
}

/// Returns a copy in which the first two blocks change places, or each block is the next one.
inline sim::Tensor in_other_order(const sim::Tensor& x, int places, bool swaps) {
  const sim::Tensor all = x.device().empty(x.dtype(), x.shape());
  for (int place = 0; place < places; ++place) {
    const int swapped = place < 2 ? 1 - place : place;
    sim::Tensor to = block_of(all, place, places);
    x.device().copy(block_of(x, swaps ? swapped : (place + 1) % places, places), to);
  }
  return all;
}

}  // namespace verify
