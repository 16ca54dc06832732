#pragma once

/// Returns a pointer to the elements of a tensor that lies in the memory of this machine, for kernels.

#include "sim/tensor/tensor.h"

namespace sim {

template <typename Scalar>
Scalar* elements(const Tensor& tensor) {
  return reinterpret_cast<Scalar*>(tensor.data());
}

}  // namespace sim
