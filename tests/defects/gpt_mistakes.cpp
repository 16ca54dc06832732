#include "tests/defects/gpt_mistakes.h"

#include <utility>

namespace test {

void train_with(sim::Rank& rank, const verify::CaseSetting& s, const GptMistakes& mistakes) {
  const verify::GptPlan plan{s};
  sim::GptTrainingConfig config = plan.training();
  if (mistakes.config != nullptr) mistakes.config(plan, config);
  sim::GptTraining training(rank, std::move(config), [&](std::int64_t number) {
    verify::overflow_where_planned(plan, rank.id, training, number);
    if (mistakes.reads != nullptr) mistakes.reads(plan, training, number);
    return mistakes.sample == nullptr ? plan.sample(number) : mistakes.sample(plan, number);
  });
  if (mistakes.made != nullptr) mistakes.made(training);
  verify::train_and_publish(rank, plan, training, [&](std::int64_t iteration) {
    if (mistakes.step == nullptr) {
      training.forward_backward(iteration);
      training.finalize_model_grads();
    } else {
      mistakes.step(plan, training, iteration);
    }
    return training.update(plan.learning_rate());
  });
}

}  // namespace test
