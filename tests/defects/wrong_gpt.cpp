#include "tests/defects/wrong_gpt.h"

#include <utility>

#include "tests/defects/exchanged_groups.h"
#include "tests/defects/gpt_mistakes.h"

namespace test {

namespace {

using sim::GptTraining;
using sim::Tensor;
using verify::CaseSetting;
using verify::GptPlan;

/// Takes a step whose gradients of experts are multiplied by a factor too many. With a per-token loss no
/// factor depends on the layout.
void scale_experts(const GptPlan& plan, GptTraining& training, std::int64_t iteration, sim::Ratio factor) {
  training.forward_backward(iteration);
  training.finalize_model_grads();
  if (plan.per_token()) return;
  for (auto& piece : training.optimizer().pieces()) {
    if (!piece.parameter->attributes.allreduce) sim::scale_in_place(piece.grad, factor);
  }
}

}  // namespace

void microbatches_forgotten(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan& plan, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               training.finalize_model_grads();
               for (auto& piece : training.optimizer().pieces())
                 sim::scale_in_place(piece.grad, {plan.microbatches(), 1});
             }});
}

void tie_summed_before_the_reduction(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               // This happens while the bucket is still being reduced.
               training.reduce_tied_embeddings();
               training.finalize_model_grads();
             }});
}

void tied_weight_counted_twice(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.made = [](GptTraining& training) {
               for (sim::Parameter* parameter : training.parameters()) parameter->attributes.copy_of.clear();
             }});
}

void every_replica_sees_the_same_samples(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
               const std::int64_t b = plan.s["micro_batch"];
               return plan.sample(number / (b * plan.dp()) * (b * plan.dp()) + number % b);
             }});
}

void samples_of_the_first_iteration(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
               return plan.sample(number % plan.global_batch());
             }});
}

void labels_not_shifted(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
               sim::Sample sample = plan.sample(number);
               for (std::size_t i = 0; i < sample.labels.size(); ++i) {
                 if (sample.labels[i] != sim::kIgnoredLabel) sample.labels[i] = sample.tokens[i];
               }
               return sample;
             }});
}

void ignored_labels_counted(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.sample = [](const GptPlan& plan, std::int64_t number) {
               sim::Sample sample = plan.sample(number);
               for (std::int32_t& label : sample.labels) {
                 if (label == sim::kIgnoredLabel) label = 0;
               }
               return sample;
             }});
}

void layer_number_of_the_next_stage(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               for (auto& chunks : config.placement.stages) {
                 for (auto& layers : chunks)
                   layers.offset = (layers.offset + layers.count) % config.placement.num_layers;
               }
             }});
}

void layer_held_by_two_stages(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               ++config.placement.stages.front().front().count;
             }});
}

void chunks_in_rank_order(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
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

/// A gated weight has two blocks of rows, the gate and the values, and each rank a part of both.
void gated_weight_resharded_as_one_block(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.made = [](GptTraining& training) {
               for (sim::Parameter* parameter : training.parameters())
                 parameter->attributes.partition_stride = 1;
             }});
}

void positions_flagged_sequence_parallel(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.made = [](GptTraining& training) {
               for (sim::Parameter* parameter : training.parameters()) {
                 if (parameter->name == "embedding.position_embeddings.weight")
                   parameter->attributes.sequence_parallel = true;
               }
             }});
}

void final_norm_flag_lost(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.made = [](GptTraining& training) {
               for (sim::Parameter* parameter : training.parameters()) {
                 if (parameter->name.starts_with("decoder.final_layernorm"))
                   parameter->attributes.sequence_parallel = false;
               }
             }});
}

/// Each rank has the gradients of the norm of queries that its own heads give.
void flag_of_the_query_norms_lost(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.made = [](GptTraining& training) {
               for (sim::Parameter* parameter : training.parameters()) {
                 if (parameter->name.find(".q_layernorm.") != std::string::npos)
                   parameter->attributes.sequence_parallel = false;
               }
             }});
}

/// Each stage counts its layers from 1 to find those without a window, as if it were the whole model.
void window_by_the_layer_of_the_stage(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan& plan, sim::GptTrainingConfig& config) {
               if (!config.model.window.attn_skip_freq) return;
               std::vector<std::int64_t> layers(static_cast<std::size_t>(config.model.num_layers));
               for (const auto& chunks : config.placement.stages) {
                 for (const auto& own : chunks) {
                   for (int i = 0; i < own.count; ++i)
                     layers[static_cast<std::size_t>(own.offset + i)] =
                         (i + 1) % plan.window_pattern() != 0 ? 1 : 0;
                 }
               }
               config.model.window.attn_skip_freq->entries = layers;
             }});
}

void gradients_kept_from_the_step_before(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
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
  train_with(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               training.data_parallel().finish_grad_sync();
             }});
}

void nothing_overlaps(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               config.data_parallel.overlap_grad_reduce = false;
             }});
}

void every_microbatch_in_flight(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               if (config.schedule == sim::one_forward_one_backward) config.schedule = sim::gpipe;
             }});
}

void gradients_not_unscaled(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               training.finalize_model_grads();
               // The optimizer divides by the scale; this takes it back.
               for (auto& piece : training.optimizer().pieces())
                 sim::scale_in_place(piece.grad, training.optimizer().loss_scale());
             }});
}

void gradients_unscaled_twice(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan&, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               training.finalize_model_grads();
               for (auto& piece : training.optimizer().pieces())
                 sim::scale_in_place(piece.grad, training.optimizer().loss_scaling().inverse());
             }});
}

// ---- experts ----

void experts_averaged_over_their_replicas(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan& plan, GptTraining& training, std::int64_t iteration) {
               // Only where etp is tp, to be told apart from the mistake below.
               const bool applies = plan.experts().etp() == plan.tp();
               const std::int64_t dp = plan.dp(), edp = plan.experts().edp();
               scale_experts(plan, training, iteration, applies ? sim::Ratio{dp, edp} : sim::Ratio{1, 1});
             }});
}

void experts_scaled_as_if_etp_were_tp(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.step = [](const GptPlan& plan, GptTraining& training, std::int64_t iteration) {
               // The factor of an average over edp is edp / dp, which is 1 / ep where etp is tp.
               scale_experts(plan, training, iteration, {plan.experts().etp(), plan.tp()});
             }});
}

void experts_reduced_over_dense_replicas(sim::Rank& rank, const CaseSetting& s) {
  ExchangedGroups groups(rank, "edp", "dp-cp");
  sim::Rank other{rank.id, rank.layout, rank.device, groups, rank.random, rank.record};
  train_with(other, s, {});
}

void dense_stage_leaves_the_norm_out(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [&](const GptPlan&, sim::GptTrainingConfig& config) {
               const auto stage = static_cast<std::size_t>(rank.groups.get("pp").rank());
               for (const auto& layers : config.placement.stages[stage]) {
                 for (int i = 0; i < layers.count; ++i)
                   if (config.model.experts.are_in(layers.offset + i)) return;
               }
               config.model.experts = {};
             }});
}

void recomputed_tokens_counted_twice(sim::Rank& rank, const CaseSetting& s) {
  std::int64_t last = -1;  // the sample that was read last: its tokens and its labels are read one by one
  train_with(rank, s, {.reads = [&](const GptPlan& plan, GptTraining& training, std::int64_t number) {
               // Only the first microbatch is recomputed. When the second one is read, its tokens are counted
               // again.
               const std::int64_t b = plan.s["micro_batch"];
               const bool begins_second =
                   number % b == 0 && number / b / plan.dp() % plan.microbatches() == 1;
               if (!begins_second || std::exchange(last, number) == number) return;
               for (sim::GptModel& chunk : training.chunks()) {
                 for (sim::TopKRouter* router : chunk.routers()) {
                   if (!router->config().expert_bias) continue;
                   Tensor& tokens = router->local_tokens_per_expert();
                   sim::copy(sim::add(tokens, tokens), tokens);
                 }
               }
             }});
}

void balance_on_the_last_stage_only(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [&](const GptPlan&, sim::GptTrainingConfig& config) {
               const sim::Communicator& pp = rank.groups.get("pp");
               if (pp.rank() + 1 == pp.size()) return;
               config.model.experts.aux_losses.clear();
               config.model.experts.z_loss_coefficient.reset();
             }});
}

void balance_without_a_gradient(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               config.model.experts.aux_losses.clear();
             }});
}

void sequences_balanced_together(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               for (sim::AuxLoss& loss : config.model.experts.aux_losses) {
                 if (loss.kind == sim::AuxLossKind::seq_aux_loss) loss.kind = sim::AuxLossKind::aux_loss;
               }
             }});
}

namespace {

/// Trains with another capacity, where the experts have one.
void train_with_capacity(sim::Rank& rank, const CaseSetting& s,
                         const std::function<void(const GptPlan&, sim::TokenDroppingConfig&)>& change) {
  train_with(rank, s, {.config = [&](const GptPlan& plan, sim::GptTrainingConfig& config) {
               auto& dropping = config.model.experts.token_dropping;
               if (dropping) change(plan, *dropping);
             }});
}

}  // namespace

void capacity_of_the_whole_microbatch(sim::Rank& rank, const CaseSetting& s) {
  train_with_capacity(rank, s, [](const GptPlan& plan, sim::TokenDroppingConfig& dropping) {
    // Padded experts cannot take more tokens than a rank has.
    if (!dropping.pad_to_capacity) dropping.capacity_factor *= plan.tp() * plan.cp();
  });
}

void first_tokens_for_the_most_probable(sim::Rank& rank, const CaseSetting& s) {
  train_with_capacity(rank, s, [](const GptPlan&, sim::TokenDroppingConfig& dropping) {
    dropping.drop_policy = sim::DropPolicy::position;
  });
}

void capacity_not_padded(sim::Rank& rank, const CaseSetting& s) {
  train_with_capacity(
      rank, s, [](const GptPlan&, sim::TokenDroppingConfig& dropping) { dropping.pad_to_capacity = false; });
}

}  // namespace test
