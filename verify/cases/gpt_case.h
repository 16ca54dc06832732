#pragma once

/// The case of training a GPT on tp x pp x dp ranks: whole steps, from tokens to parameters.

#include <functional>

#include "verify/case.h"
#include "verify/cases/gpt_plan.h"

namespace verify {

std::unique_ptr<Case> gpt_training_case();

/// Takes the plan's steps, and publishes losses, norms, gradients, states and parameters.
void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step);

}  // namespace verify
