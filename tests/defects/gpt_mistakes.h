#pragma once

/// A training of a GPT that does some things differently from the cases gpt_training, moe_training and
/// cp_training, and publishes what they publish.

#include <functional>

#include "verify/cases/gpt_case.h"
#include "verify/cases/gpt_plan.h"

namespace test {

struct GptMistakes {
  std::function<void(const verify::GptPlan& plan, sim::GptTrainingConfig& config)> config = nullptr;
  std::function<sim::Sample(const verify::GptPlan& plan, std::int64_t number)> sample = nullptr;
  std::function<void(const verify::GptPlan& plan, sim::GptTraining& training, std::int64_t number)> reads =
      nullptr;
  void (*made)(sim::GptTraining& training) = nullptr;
  /// Takes a step up to the optimizer's.
  std::function<void(const verify::GptPlan& plan, sim::GptTraining& training, std::int64_t iteration)> step =
      nullptr;
};

void train_with(sim::Rank& rank, const verify::CaseSetting& setting, const GptMistakes& mistakes);

}  // namespace test
