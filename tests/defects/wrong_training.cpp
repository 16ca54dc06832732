#include "tests/defects/wrong_training.h"

#include "verify/cases/data_parallel_plan.h"

namespace test {

namespace {

using sim::Tensor;
using verify::CaseSetting;
using verify::Plan;
using verify::Training;

/// What is done otherwise than in the case.
struct Mistakes {
  void (*zero)(Training& training) = [](Training& training) { training.data_parallel.zero_grads(); };
  bool ready_in_first_microbatch = false;
  bool waits = true;
  bool last_gather = true;
  bool drops_last_microbatch = false;
  bool steps_each_microbatch = false;
  void (*after_sync)(Training& training, std::int64_t step) = nullptr;
  void (*after_step)(Training& training) = nullptr;
};

void divide(Training& training, std::int64_t step) {
  if (training.plan.per_token()) training.data_parallel.divide_grads(training.plan.tokens_of(step));
}

void run(sim::Rank& rank, const CaseSetting& s, const Mistakes& mistakes) {
  const Plan plan{s};
  Training training(rank, plan);
  const std::int64_t microbatches = s["microbatches"] - (mistakes.drops_last_microbatch ? 1 : 0);
  for (std::int64_t step = 0; step < s["steps"]; ++step) {
    mistakes.zero(training);
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      if (microbatch == 0 && mistakes.waits) training.wait_for_parameters();
      training.backward(
          step, microbatch,
          mistakes.ready_in_first_microbatch ? microbatch == 0 : microbatch + 1 == microbatches);
      if (mistakes.steps_each_microbatch && microbatch + 1 < microbatches)
        training.optimizer.step(verify::kLearningRate);
    }
    training.data_parallel.finish_grad_sync();
    if (mistakes.after_sync == nullptr) {
      divide(training, step);
    } else {
      mistakes.after_sync(training, step);
    }
    training.optimizer.step(verify::kLearningRate);
    if (mistakes.after_step != nullptr) mistakes.after_step(training);
    const bool is_last = step + 1 == s["steps"];
    if (s["overlap"] == 1 && (mistakes.last_gather || !is_last)) training.optimizer.start_param_gather();
  }
  training.optimizer.finish_param_gather();
  training.publish();
}

}  // namespace

void gradients_not_zeroed(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.zero = [](Training& training) {
        // What is ready is forgotten, and the gradients of this rank's pieces stay.
        std::vector<Tensor> kept;
        for (const auto& piece : training.optimizer.pieces()) kept.push_back(sim::scale(piece.grad, {1, 1}));
        training.data_parallel.zero_grads();
        for (std::size_t i = 0; i < kept.size(); ++i) sim::copy(kept[i], training.optimizer.pieces()[i].grad);
      }});
}

void reduced_before_the_last_gradient(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.ready_in_first_microbatch = true});
}

void mean_of_means(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        if (!training.plan.per_token()) return;
        // As if each sample had as many tokens as the mean of them.
        training.data_parallel.divide_grads(training.plan.samples() * training.plan.tokens(step, 0));
      }});
}

void tokens_of_the_own_rank(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        if (!training.plan.per_token()) return;
        const int place = training.rank.groups.get("dp-cp").rank();
        std::int64_t tokens = 0;
        for (std::int64_t i = 0; i < training.plan.s["microbatches"]; ++i)
          tokens += training.plan.tokens(step, place * training.plan.s["microbatches"] + i);
        training.data_parallel.divide_grads(tokens);
      }});
}

void not_divided_by_tokens(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training&, std::int64_t) {}});
}

void divided_by_microbatches(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        divide(training, step);
        training.data_parallel.divide_grads(training.plan.s["microbatches"]);
      }});
}

void parameters_not_waited_for(sim::Rank& rank, const CaseSetting& s) { run(rank, s, {.waits = false}); }

void last_gather_forgotten(sim::Rank& rank, const CaseSetting& s) { run(rank, s, {.last_gather = false}); }

void optimizer_holds_other_parameters(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        // The model was moved after the optimizer was made: it reads copies that nobody steps.
        for (sim::Parameter& parameter : training.parameters)
          parameter.value = sim::scale(parameter.value, {1, 1});
      }});
}

void last_microbatch_dropped(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.drops_last_microbatch = s["microbatches"] > 1});
}

void stepped_once_a_microbatch(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.steps_each_microbatch = s["overlap"] == 0});
}

void main_parameter_from_rounded_value(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        for (auto& piece : training.optimizer.pieces()) {
          // As a checkpoint of the model's parameters alone would be loaded: here with half of each.
          sim::copy(sim::scale(piece.main, {1, 2}), piece.main);
        }
      }});
}

void moments_forgotten(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        for (auto& piece : training.optimizer.pieces()) sim::fill(piece.exp_avg, 0);
      }});
}

}  // namespace test
