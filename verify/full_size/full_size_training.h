#pragma once

/// The training of a scenario's own model in its own sizes, for virtual ranks on a device of shapes
/// (sim/shapes/shapes_device.h).
///
/// Shapes  those of the scenario: layers where it places them, its batch and microbatches, its vocabulary
///         with Megatron's padding. Gradients are reduced in f32, after the schedule, in one bucket. With
///         --overlap-grad-reduce they are reduced while it runs, and the first stage cuts them into buckets.
/// Exact   Every token has a loss.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/gpt_training.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Whether options ask for a step at full size, by the sizes of a model and a batch, and why it is not run;
/// "" if it is.
struct FullSizeAnswer {
  bool is_asked_for = false;
  std::string reason;
};
FullSizeAnswer can_run_full_size(const ScenarioRequest& request);

/// Names what the scenario's model has and the one that runs has not.
std::vector<std::string> left_out_of_step(const ScenarioRequest& request);

/// Returns the context-parallel ranks of an inner group of a2a+p2p.
int inner_cp(const ScenarioRequest& request);

/// Returns the elements that close a bucket of a pipeline rank; nothing where all are in one bucket.
std::optional<std::int64_t> bucket_size(const ScenarioRequest& request, int pipeline_rank);

/// Returns the training of a pipeline rank. can_run_full_size() must have found no reason against it.
sim::GptTrainingConfig full_size_training(const ScenarioRequest& request, int pipeline_rank);

/// Runs the step of one rank. `after_passes` is called between the schedule and the reductions after it.
void run_full_size_step(
    sim::Rank& rank, const sim::GptTrainingConfig& config, const std::function<void()>& after_passes = [] {});

}  // namespace verify
