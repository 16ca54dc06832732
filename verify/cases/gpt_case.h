#pragma once

/// The steps of a planned GPT training. The case gpt_training uses them, and so do the planted programs that
/// train a GPT with a defect.

#include <functional>

#include "verify/cases/gpt_plan.h"

namespace verify {

/// Takes the steps of the plan by calling `step` for each, and publishes losses, gradient norms, gradients,
/// optimizer states, parameters, the loss scale, and the most activations that were kept at once. A stretch
/// of a training is loaded before its steps and saved after them.
void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step);

/// Makes a gradient of this rank infinite, if the plan has an overflow here in the step of this sample. A
/// training calls it when it reads the sample: no other code of a case runs inside a step.
void overflow_where_planned(const GptPlan& plan, int rank, sim::GptTraining& training, std::int64_t sample);

}  // namespace verify
