#pragma once

/// A rank program that trains a small GPT in f32 for three steps, on any layout of tensor, pipeline and data parallelism that divides it.
///
/// Exact   publishes every loss and every parameter.

#include "sim/comm/rank.h"

namespace test {

void train(sim::Rank& rank, int pipeline_model_parallel_size);

}  // namespace test
