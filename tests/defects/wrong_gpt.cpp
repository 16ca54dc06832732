#include "tests/defects/wrong_gpt.h"

#include "verify/cases/gpt_case.h"
#include "verify/cases/gpt_plan.h"

namespace test {

namespace {

using sim::GptTraining;
using verify::CaseSetting;
using verify::GptPlan;

/// What a wrong training step does differently from the case.
struct Mistakes {
  void (*config)(sim::GptTrainingConfig& config) = nullptr;
  sim::Sample (*sample)(const GptPlan& plan, std::int64_t number) = nullptr;
  void (*made)(GptTraining& training) = nullptr;
  void (*step)(const GptPlan& plan, GptTraining& training, std::int64_t iteration) = nullptr;
};

void run(sim::Rank& rank, const CaseSetting& s, const Mistakes& mistakes) {
  const GptPlan plan{s};
  sim::GptTrainingConfig config = plan.training();
  if (mistakes.config != nullptr) mistakes.config(config);
  GptTraining training(rank, std::move(config), [&](std::int64_t number) {
    verify::overflow_where_planned(plan, rank.id, training, number);
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

}  // namespace

void microbatches_forgotten(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan& plan, GptTraining& training, std::int64_t iteration) {
        training.forward_backward(iteration);
        training.finalize_model_grads();
        for (auto& piece : training.optimizer().pieces())
          sim::scale_in_place(piece.grad, {plan.microbatches(), 1});
      }});
}

void tie_summed_before_the_reduction(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        training.forward_backward(iteration);
        // This happens while the bucket is still being reduced.
        training.reduce_tied_embeddings();
        training.finalize_model_grads();
      }});
}

void tied_weight_counted_twice(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.made = [](GptTraining& training) {
        for (sim::Parameter* parameter : training.parameters()) parameter->attributes.copy_of.clear();
      }});
}

void every_replica_sees_the_same_samples(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
        const std::int64_t b = plan.s["micro_batch"];
        return plan.sample(number / (b * plan.dp()) * (b * plan.dp()) + number % b);
      }});
}

void samples_of_the_first_iteration(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
        return plan.sample(number % plan.global_batch());
      }});
}

void labels_not_shifted(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
        sim::Sample sample = plan.sample(number);
        for (std::size_t i = 0; i < sample.labels.size(); ++i) {
          if (sample.labels[i] != sim::kIgnoredLabel) sample.labels[i] = sample.tokens[i];
        }
        return sample;
      }});
}

void ignored_labels_counted(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
        sim::Sample sample = plan.sample(number);
        for (std::int32_t& label : sample.labels) {
          if (label == sim::kIgnoredLabel) label = 0;
        }
        return sample;
      }});
}

void layer_number_of_the_next_stage(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.config = [](sim::GptTrainingConfig& config) {
        for (auto& chunks : config.placement.stages) {
          for (auto& layers : chunks)
            layers.offset = (layers.offset + layers.count) % config.placement.num_layers;
        }
      }});
}

void layer_held_by_two_stages(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s,
      {.config = [](sim::GptTrainingConfig& config) { ++config.placement.stages.front().front().count; }});
}

void chunks_in_rank_order(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.config = [](sim::GptTrainingConfig& config) {
        // Both chunks of a rank lie next to each other in the model, as if the pipeline did not come
        // back to the first rank.
        int offset = 0;
        for (auto& chunks : config.placement.stages) {
          for (auto& layers : chunks) {
            layers.offset = offset;
            offset += layers.count;
          }
        }
      }});
}

void positions_flagged_sequence_parallel(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.made = [](GptTraining& training) {
        for (sim::Parameter* parameter : training.parameters()) {
          if (parameter->name == "embedding.position_embeddings.weight")
            parameter->attributes.sequence_parallel = true;
        }
      }});
}

void final_norm_flag_lost(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.made = [](GptTraining& training) {
        for (sim::Parameter* parameter : training.parameters()) {
          if (parameter->name.starts_with("decoder.final_layernorm"))
            parameter->attributes.sequence_parallel = false;
        }
      }});
}

void gradients_kept_from_the_step_before(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        std::vector<sim::Tensor> before;
        for (const auto& piece : training.optimizer().pieces())
          before.push_back(sim::scale(piece.grad, {1, 1}));
        training.forward_backward(iteration);
        training.finalize_model_grads();
        for (std::size_t i = 0; i < before.size(); ++i)
          sim::add_to(training.optimizer().pieces()[i].grad, before[i]);
      }});
}

void updated_before_finalized(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        training.forward_backward(iteration);
        training.data_parallel().finish_grad_sync();
      }});
}

void parameters_gathered_twice(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        training.optimizer().finish_param_gather();
        training.optimizer().start_param_gather();
        training.optimizer().finish_param_gather();
        training.forward_backward(iteration);
        training.finalize_model_grads();
      }});
}

void nothing_overlaps(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s,
      {.config = [](sim::GptTrainingConfig& config) { config.data_parallel.overlap_grad_reduce = false; }});
}

void every_microbatch_in_flight(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.config = [](sim::GptTrainingConfig& config) {
        if (config.schedule == sim::one_forward_one_backward) config.schedule = sim::gpipe;
      }});
}

void gradients_not_unscaled(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        training.forward_backward(iteration);
        training.finalize_model_grads();
        // The optimizer divides by the scale; this takes it back.
        for (auto& piece : training.optimizer().pieces())
          sim::scale_in_place(piece.grad, training.optimizer().loss_scale());
      }});
}

void gradients_unscaled_twice(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
        training.forward_backward(iteration);
        training.finalize_model_grads();
        for (auto& piece : training.optimizer().pieces())
          sim::scale_in_place(piece.grad, training.optimizer().loss_scaling().inverse());
      }});
}

}  // namespace test
