#pragma once

/// The values of a tensor on the host, from their bytes: floats of any width as doubles, which hold them all
/// exactly, and elements of the field.

#include <cstddef>
#include <vector>

#include "sim/tensor/dtype.h"

namespace verify {

/// Of f64, f32 or bf16.
std::vector<double> doubles_of(sim::DType dtype, const std::vector<std::byte>& bytes);
std::vector<sim::Field> fields_of(const std::vector<std::byte>& bytes);

}  // namespace verify
