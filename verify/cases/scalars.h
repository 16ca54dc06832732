#pragma once

/// Converts the bytes of a tensor on the host to values: floats of any width to doubles, which hold them
/// exactly, and elements of the field.

#include <cstddef>
#include <vector>

#include "sim/tensor/dtype.h"

namespace verify {

/// `dtype` is f64, f32 or bf16.
std::vector<double> doubles_of(sim::DType dtype, const std::vector<std::byte>& bytes);
std::vector<sim::Field> fields_of(const std::vector<std::byte>& bytes);

}  // namespace verify
