#pragma once

/// The steps of a planned GPT training, as the case gpt_training and the planted defects of it take them.

#include <functional>

#include "verify/cases/gpt_plan.h"

namespace verify {

/// Takes the plan's steps, and publishes losses, norms, gradients, states and parameters.
void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step);

}  // namespace verify
