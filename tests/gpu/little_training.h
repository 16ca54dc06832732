#pragma once

/// A rank program that trains a small GPT for three steps, on any layout of tensor, pipeline, data, expert
/// and context parallelism that divides it.
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

/// The layout and the training of a mode: experts-allgather, experts-alltoall and experts-flex with experts
/// and the dispatcher of this name, context-p2p, context-all_gather, context-a2a and context-a2a+p2p with
/// context parallelism of this kind. Nothing for other modes. A layout has 1, 2, 4 or 8 ranks. With 4 ranks
/// experts are cut over etp, and with 8 each of them has two replicas. Up to 4 ranks share sequences, in
/// levels of 2.
struct LittleTraining {
  sim::Layout layout;
  sim::GptTrainingConfig config;
};
std::optional<LittleTraining> training_of_mode(const std::string& mode, int ranks, sim::DType dtype);

void train(sim::Rank& rank, const sim::GptTrainingConfig& config);

}  // namespace test
