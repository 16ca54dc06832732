#pragma once

/// The experts of a GPT training trial, derived from a setting that has the dimensions `ep`, `etp`,
/// `local_experts`, `topk`, `dispatcher`, `dense_layers`, `sigmoid`, `shared` and `balance`, and for experts
/// with a capacity also `dropping` and `padded`.
///
/// Shapes  a pipeline stage has etp x ep x edp ranks for experts, where etp and ep are the largest divisors
///         that do not exceed the dimensions of these names; etp is 1 where experts have a bias. The number
///         of experts is a multiple of ep, and the size of each is a multiple of etp.

#include "sim/model/gpt_training.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_setting.h"
#include "verify/reference/expert_capacity.h"
#include "verify/reference/gpt.h"

namespace verify {

/// The sizes of the axes of the grid of experts, which are derived once.
struct GptExpertsGrid {
  int etp, ep, edp;
  GptExpertsGrid(const CaseSetting& s, int ranks_of_stage)
      : etp(s["bias"] == 1 ? 1 : largest_divisor(ranks_of_stage, s["etp"])),
        ep(largest_divisor(ranks_of_stage / etp, s["ep"])),
        edp(ranks_of_stage / etp / ep) {}
};

struct GptExpertsPlan {
  const CaseSetting& s;
  int ranks_of_stage;   // tp x cp x dp
  std::int64_t whole;   // the common divisor of the model's sizes
  std::int64_t layers;  // of the model
  const GptExpertsGrid grid = GptExpertsGrid(s, ranks_of_stage);

  int etp() const { return grid.etp; }
  int ep() const { return grid.ep; }
  int edp() const { return grid.edp; }

  std::int64_t number() const { return s.fixed("num_experts", ep() * s["local_experts"]); }
  std::int64_t local() const { return number() / ep(); }
  std::int64_t topk() const { return std::min(s["topk"], number()); }
  std::int64_t ffn() const { return whole_etp() * s["ffn"]; }
  std::int64_t whole_etp() const { return s.fixed("whole_etp", etp()); }
  bool are_shared() const { return s["shared"] > 0; }
  std::int64_t shared_ffn() const { return are_shared() ? whole * s["ffn"] : 0; }
  bool has_gate() const { return s["shared"] == 2; }
  sim::TokenDispatcherType dispatcher() const {
    return static_cast<sim::TokenDispatcherType>(s["dispatcher"]);
  }
  /// Whether a layer has experts; with dense layers these are the layers 1, 3, 5 and so on.
  bool are_in(std::int64_t layer) const { return s["dense_layers"] == 0 || layer % 2 == 1; }
  std::vector<bool> layers_with_experts() const {
    std::vector<bool> all;
    for (std::int64_t i = 0; i < layers; ++i) all.push_back(are_in(i));
    return all;
  }
  sim::LayerPattern moe_layer_freq() const {
    if (s["dense_layers"] == 0) return {};
    const std::vector<bool> all = layers_with_experts();
    return {.entries = {all.begin(), all.end()}};
  }
  /// Whether the gradients of experts are reduced in buffers of their own.
  bool have_own_buffers(int tp) const { return ep() > 1 || etp() != tp; }

  /// Scores of each logit, sigmoid or sqrtsoftplus, have a bias by which experts are chosen; softmax is taken
  /// of the chosen logits, or of all logits with `pre_softmax`. Special values would make sigmoid scores
  /// vanish.
  bool scores_each_logit() const { return s["sigmoid"] == 1 && s.special == Special::none; }
  bool has_expert_bias() const { return scores_each_logit() && s.fixed("biased", 1) == 1; }
  bool is_pre_softmax() const { return !scores_each_logit() && s.fixed("pre_softmax", 0) == 1; }
  sim::ScoreFunction score_function() const {
    if (!scores_each_logit()) return sim::ScoreFunction::softmax;
    return s.fixed("sqrtsoftplus", 0) == 1 ? sim::ScoreFunction::sqrtsoftplus : sim::ScoreFunction::sigmoid;
  }
  /// The groups of experts to which the choice of a token is limited; 0 where there are none, or where the
  /// experts cannot be cut into them.
  std::int64_t router_groups() const { return fit_groups() ? s.fixed("router_groups", 0) : 0; }
  std::int64_t router_group_topk() const { return fit_groups() ? s.fixed("router_group_topk", 0) : 0; }
  sim::Ratio scaling() const { return {s.fixed("scaling_numerator", 1), s.fixed("scaling_denominator", 1)}; }

  /// Experts have no capacity, or they keep the most probable tokens of each rank, or the first ones. Without
  /// elements the dispatcher flex has no tokens that are kept, but only their number.
  bool has_capacity() const {
    const bool is_unknown = is_balanced() && dispatcher() == sim::TokenDispatcherType::flex;
    return s.fixed("dropping", 0) > 0 && !is_unknown;
  }
  bool drops_by_probability() const { return s.fixed("dropping", 0) == 1; }
  bool pads_to_capacity() const { return has_capacity() && s.fixed("padded", 0) == 1; }
  double capacity_factor() const {
    return static_cast<double>(s.fixed("capacity_millionths", kMillion)) / kMillion;
  }
  /// How many tokens an expert keeps of so many tokens of a rank.
  reference::CapacitySetting capacity(std::int64_t tokens) const {
    return {.tokens = tokens,
            .capacity = reference::capacity_of(tokens, topk(), number(), capacity_factor()),
            .by_probability = drops_by_probability(),
            .is_padded = pads_to_capacity()};
  }

  /// Whether the sizes of a dispatcher's calls depend on the tokens that chose each expert. Those of
  /// allgather do not, nor those of alltoall where each expert has as many rows of every rank.
  bool are_rows_chosen() const {
    const bool is_alltoall = dispatcher() == sim::TokenDispatcherType::alltoall;
    return dispatcher() != sim::TokenDispatcherType::allgather && !(is_alltoall && pads_to_capacity());
  }
  /// The rows that a rank of so many tokens sends to each ep rank where experts are padded to a capacity.
  std::int64_t padded_rows(std::int64_t tokens) const {
    return local() * std::min(capacity(tokens).capacity, tokens);
  }

  /// Whether experts are chosen in turn: in runs without elements, where no score can be compared.
  bool is_balanced() const { return s.fixed("balanced", 0) == 1; }

  enum class Balance { none, aux_loss, seq_aux_loss, global_aux_loss, z_loss };
  Balance balance() const { return static_cast<Balance>(s["balance"]); }
  static constexpr sim::Ratio kBalanceCoefficient = {1, 8};
  static constexpr sim::Ratio kBiasRate = {1, 4};
  static constexpr std::int64_t kMillion = 1'000'000;
  bool counts_tokens() const {
    return balance() == Balance::aux_loss || balance() == Balance::seq_aux_loss ||
           balance() == Balance::global_aux_loss;
  }

  sim::GptExperts config() const {
    sim::GptExperts config{.num_experts = number(),
                           .moe_layer_freq = moe_layer_freq(),
                           .moe_ffn_hidden_size = ffn(),
                           .routing = {.topk = topk(),
                                       .score_function = score_function(),
                                       .pre_softmax = is_pre_softmax(),
                                       .scaling_factor = scaling(),
                                       .force_load_balancing = is_balanced(),
                                       .num_groups = router_groups(),
                                       .group_topk = router_group_topk()},
                           .expert_bias = has_expert_bias(),
                           .expert_bias_update_rate = kBiasRate,
                           .dispatcher = dispatcher(),
                           .shared_expert_intermediate_size = shared_ffn(),
                           .shared_expert_gate = has_gate()};
    if (has_capacity())
      config.token_dropping = {
          .capacity_factor = capacity_factor(),
          .drop_policy = drops_by_probability() ? sim::DropPolicy::probs : sim::DropPolicy::position,
          .pad_to_capacity = pads_to_capacity()};
    if (balance() == Balance::z_loss) config.z_loss_coefficient = kBalanceCoefficient;
    if (counts_tokens()) {
      const auto kind = static_cast<int>(balance()) - static_cast<int>(Balance::aux_loss);
      config.aux_losses = {{static_cast<sim::AuxLossKind>(kind), kBalanceCoefficient}};
    }
    return config;
  }

  reference::RouterScore score() const {
    switch (score_function()) {
      case sim::ScoreFunction::softmax:
        return reference::RouterScore::softmax;
      case sim::ScoreFunction::sigmoid:
        return reference::RouterScore::sigmoid;
      case sim::ScoreFunction::sqrtsoftplus:
        break;
    }
    return reference::RouterScore::sqrtsoftplus;
  }
  reference::GptExpertSizes sizes() const {
    return {.layers = layers_with_experts(),
            .experts = number(),
            .router = {.topk = topk(),
                       .score = score(),
                       .pre_softmax = is_pre_softmax(),
                       .scaling_numerator = scaling().numerator,
                       .scaling_denominator = scaling().denominator,
                       .groups = router_groups(),
                       .group_topk = router_group_topk()},
            .shared = are_shared()};
  }

 private:
  bool fit_groups() const {
    const std::int64_t groups = s.fixed("router_groups", 0), survivors = s.fixed("router_group_topk", 0);
    return groups > 0 && survivors > 0 && survivors <= groups && number() % groups == 0 &&
           topk() % survivors == 0 && topk() <= survivors * (number() / groups);
  }
};

}  // namespace verify
