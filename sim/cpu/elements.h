#pragma once

/// The elements of a tensor that lies in this machine's memory, for kernels.

#include "sim/tensor/tensor.h"

namespace sim {

template <typename Scalar>
Scalar* elements(const Tensor& tensor) {
  return reinterpret_cast<Scalar*>(tensor.data());
}

}  // namespace sim
