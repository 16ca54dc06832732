#pragma once

/// A rank program that trains a small GPT for three steps, on any layout of tensor, pipeline and data
/// parallelism that divides it.
///
/// Exact   The program publishes every loss, parameter, gradient and moment.

#include "sim/comm/rank.h"
#include "sim/model/gpt_training.h"

namespace test {

sim::GptTrainingConfig little_gpt(sim::DType dtype, int pipeline_model_parallel_size, int microbatches);

void train(sim::Rank& rank, const sim::GptTrainingConfig& config);

}  // namespace test
