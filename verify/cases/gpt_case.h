#pragma once

/// The steps of a planned GPT training. The case gpt_training uses them, and so do the planted programs that
/// train a GPT with a defect.

#include <functional>

#include "verify/cases/gpt_plan.h"

namespace verify {

/// Takes the steps of the plan by calling `step` for each, and publishes losses, gradient norms, gradients,
/// optimizer states and parameters.
void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step);

}  // namespace verify
