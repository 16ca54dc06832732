#pragma once

/// A rank program that trains a small GPT for three steps, on any layout of tensor, pipeline, data and expert
/// parallelism that divides it.
///
/// Shapes  with experts: every layer has four, of which each token chooses two. In the last layer of each
///         chunk, all tokens choose the first two, so that the others, and with ep above 1 some ranks, have
///         none.
/// Exact   The program publishes every loss, parameter, gradient and moment.

#include <optional>
#include <string>

#include "sim/comm/rank.h"
#include "sim/model/gpt_training.h"

namespace test {

sim::GptTrainingConfig little_gpt(sim::DType dtype, int pipeline_model_parallel_size, int microbatches);

/// Returns a layout of 1, 2, 4 or 8 ranks with experts. With 4 ranks experts are cut over etp, and with 8
/// each of them has two replicas.
sim::Layout layout_with_experts(int ranks);
sim::GptTrainingConfig little_gpt_with_experts(sim::DType dtype, const sim::Layout& layout,
                                               sim::TokenDispatcherType dispatcher);
/// Returns the dispatcher of a mode such as "experts-alltoall"; nothing for other modes.
std::optional<sim::TokenDispatcherType> dispatcher_of_mode(const std::string& mode);

void train(sim::Rank& rank, const sim::GptTrainingConfig& config);

}  // namespace test
