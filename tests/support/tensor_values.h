#pragma once

/// Converts tensors from vectors and back, for tests that look at values.

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "sim/comm/recorder.h"
#include "sim/tensor/ops.h"

namespace test {

template <typename Scalar>
std::vector<Scalar> scalars(const std::vector<std::byte>& bytes) {
  std::vector<Scalar> values(bytes.size() / sizeof(Scalar));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <typename Scalar>
std::vector<Scalar> values(const sim::Tensor& tensor) {
  return scalars<Scalar>(sim::host_bytes(tensor));
}

template <typename Scalar>
std::vector<Scalar> values(const sim::Published* tensor) {
  return tensor == nullptr ? std::vector<Scalar>{} : scalars<Scalar>(tensor->values);
}

template <typename Scalar>
sim::Tensor tensor_of(sim::Device& device, sim::DType dtype, const sim::Shape& shape,
                      const std::vector<Scalar>& given) {
  return sim::from_host(device, dtype, shape, std::as_bytes(std::span(given)));
}

}  // namespace test
