#include "tests/defects/wrong_context_training.h"

#include "tests/defects/gpt_mistakes.h"

namespace test {

namespace {

using sim::GptTraining;
using verify::CaseSetting;
using verify::GptPlan;

/// Trains with all gradients multiplied by a factor too many, if it applies.
void scale_gradients(sim::Rank& rank, const CaseSetting& s, bool applies, sim::Ratio factor) {
  if (!applies) factor = {1, 1};
  train_with(rank, s, {.step = [factor](const GptPlan&, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               training.finalize_model_grads();
               for (auto& piece : training.optimizer().pieces()) sim::scale_in_place(piece.grad, factor);
             }});
}

/// Whether the loss of the tokens is all that has gradients.
bool has_one_loss(const GptPlan& plan) {
  return !plan.has_experts() || plan.experts().balance() == verify::GptExpertsPlan::Balance::none;
}
/// Whether the schedule multiplies this loss by cp.
bool is_times_cp(const GptPlan& plan) {
  return has_one_loss(plan) && plan.has_whole_sequence_loss() && !plan.per_token();
}

}  // namespace

void loss_not_times_cp(sim::Rank& rank, const CaseSetting& s) {
  const GptPlan plan{s};
  scale_gradients(rank, s, is_times_cp(plan), {1, plan.cp()});
}

void loss_times_cp_twice(sim::Rank& rank, const CaseSetting& s) {
  const GptPlan plan{s};
  scale_gradients(rank, s, is_times_cp(plan), {plan.cp(), 1});
}

void loss_per_token_times_cp(sim::Rank& rank, const CaseSetting& s) {
  const GptPlan plan{s};
  scale_gradients(rank, s, has_one_loss(plan) && plan.per_token(), {plan.cp(), 1});
}

void gradients_scaled_by_dp(sim::Rank& rank, const CaseSetting& s) {
  const GptPlan plan{s};
  scale_gradients(rank, s, !plan.per_token(), {plan.cp(), 1});
}

void each_rank_divides_by_its_tokens(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               config.whole_sequence_loss = false;
             }});
}

void balance_not_times_cp(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan& plan, sim::GptTrainingConfig& config) {
               if (plan.per_token()) return;  // then no loss is multiplied by cp
               for (sim::AuxLoss& loss : config.model.experts.aux_losses)
                 loss.coefficient.denominator *= plan.cp();
               auto& of_z_loss = config.model.experts.z_loss_coefficient;
               if (of_z_loss) of_z_loss->denominator *= plan.cp();
             }});
}

void norm_gradients_of_the_first_rank(sim::Rank& rank, const CaseSetting& s) {
  const bool is_first = rank.groups.get("cp").rank() == 0;
  train_with(rank, s,
             {.step = [is_first](const GptPlan& plan, GptTraining& training, std::int64_t iteration) {
               training.forward_backward(iteration);
               // Where reductions overlap, they have begun.
               const bool applies = !is_first && plan.s["overlap"] == 0;
               for (sim::Parameter* parameter : training.parameters()) {
                 if (applies && parameter->name.find("layernorm") != std::string::npos)
                   sim::fill(parameter->main_grad, 0);
               }
               training.finalize_model_grads();
             }});
}

void labels_of_a_training_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) {
  const int place = rank.groups.get("cp").rank();
  train_with(rank, s, {.sample = [place](const GptPlan& plan, std::int64_t number) {
               // The labels lie so that the rows of this rank's chunks are those of one contiguous piece.
               const sim::SequenceCut cut = plan.model().sequence_cut();
               const sim::Sample sample = plan.sample(number);
               sim::Sample other = sample;
               std::int64_t of_piece = place * cut.local_length();
               for (const std::int64_t row : cut.rows_of(place))
                 other.labels[static_cast<std::size_t>(row)] =
                     sample.labels[static_cast<std::size_t>(of_piece++)];
               return other;
             }});
}

void documents_of_a_training_forgotten(sim::Rank& rank, const CaseSetting& s) {
  train_with(rank, s, {.config = [](const GptPlan&, sim::GptTrainingConfig& config) {
               config.model.cu_seqlens.clear();
             }});
}

void labels_of_documents_cut_as_a_sequence(sim::Rank& rank, const CaseSetting& s) {
  const int place = rank.groups.get("cp").rank();
  train_with(rank, s, {.sample = [place](const GptPlan& plan, std::int64_t number) {
               // The labels lie so that this rank's rows have those of the chunks of the whole sequence.
               const auto of_sequence =
                   sim::SequenceCut::of_sequence(plan.seq_length(), plan.cp()).rows_of(place);
               const auto own = plan.model().sequence_cut().rows_of(place);
               const sim::Sample sample = plan.sample(number);
               sim::Sample other = sample;
               for (std::size_t i = 0; i < own.size(); ++i)
                 other.labels[static_cast<std::size_t>(own[i])] =
                     sample.labels[static_cast<std::size_t>(of_sequence[i])];
               return other;
             }});
}

}  // namespace test
