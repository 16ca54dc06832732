#pragma once

/// The training of a scenario's own model in its own sizes, for virtual ranks on a device of shapes
/// (sim/shapes/shapes_device.h).
///
/// Shapes  those of the scenario: layers where it places them, its batch and microbatches, its vocabulary
///         with Megatron's padding. Gradients are reduced in f32, in buckets of Megatron's default size,
///         after the schedule.
/// Exact   Every token has a loss.

#include <string>

#include "sim/model/gpt_training.h"
#include "verify/options/scenario_request.h"

namespace verify {

/// Whether options ask for a step at full size, by the sizes of a model and a batch, and why it is not run;
/// "" if it is.
struct FullSizeAnswer {
  bool is_asked_for = false;
  std::string reason;
};
FullSizeAnswer can_run_full_size(const ScenarioRequest& request);

/// Returns the context-parallel ranks of an inner group of a2a+p2p.
int inner_cp(const ScenarioRequest& request);

/// Returns the elements that close a bucket unless an option says another number.
std::int64_t default_bucket_size(const sim::Layout& layout);

/// Returns the training. can_run_full_size() must have found no reason against it.
sim::GptTrainingConfig full_size_training(const ScenarioRequest& request);

}  // namespace verify
