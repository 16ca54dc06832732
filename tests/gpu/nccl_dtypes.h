#pragma once

/// The dtypes that NCCL can move, among those that a random program draws.

#include <vector>

#include "sim/tensor/dtype.h"

namespace test {

inline const std::vector<sim::DType> kNcclDTypes = {sim::DType::f64, sim::DType::f32, sim::DType::bf16,
                                                    sim::DType::i32};

}  // namespace test
