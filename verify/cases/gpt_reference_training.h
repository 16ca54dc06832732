#pragma once

/// The reference training of a GPT, as a template over its scalars. Each scalar has a source of its own,
/// because the template takes long to compile: gpt_reference_field.cpp, gpt_reference_bounded.cpp and
/// gpt_reference_perturbed.cpp, which alone include this header.
///
/// Exact   what gpt_reference.h says of the reference.

#include "sim/tensor/checks.h"
#include "verify/cases/gpt_reference.h"
#include "verify/cases/rotary_table.h"
#include "verify/reference/adam.h"
#include "verify/reference/balance_loss.h"
#include "verify/reference/gpt.h"
#include "verify/reference/z_loss.h"

namespace verify::gpt_reference_training {

using Balance = GptExpertsPlan::Balance;

inline std::vector<int> merges_by_layer(const GptPlan& plan, const sim::GptConfig& model) {
  std::vector<int> all;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    all.push_back(merges_of_ring(model.cp_comm_type_of(layer), plan.cp(), plan.inner_cp()));
  return all;
}

/// The layers are counted from 1, and those whose number the pattern divides see all tokens before each.
inline std::vector<std::int64_t> windows_by_layer(const GptPlan& plan, const sim::GptConfig& model) {
  const std::int64_t pattern = plan.window_pattern();
  std::vector<std::int64_t> all;
  for (std::int64_t number = 1; number <= model.num_layers; ++number)
    all.push_back(pattern > 1 && number % pattern == 0 ? -1 : model.window.size);
  return all;
}

inline std::optional<reference::LatentAttentionSizes> latent_sizes_of(const sim::GptConfig& model) {
  if (!model.latent) return std::nullopt;
  return reference::LatentAttentionSizes{.sequence = model.seq_length,
                                         .batch = 1,
                                         .heads = model.num_attention_heads,
                                         .content = model.latent->qk_head_dim,
                                         .positions = model.latent->qk_pos_emb_head_dim,
                                         .values = model.latent->v_head_dim,
                                         .causal = true};
}

inline reference::GptSizes sizes_of(const GptPlan& plan, const sim::GptConfig& model) {
  return {.layers = model.num_layers,
          .attention = {.sequence = model.seq_length,
                        .batch = 1,
                        .heads = model.num_attention_heads,
                        .groups = model.num_query_groups,
                        .channels = model.kv_channels,
                        .sight = {.causal = true}},
          .latent = latent_sizes_of(model),
          .merges = merges_by_layer(plan, model),
          .windows = windows_by_layer(plan, model),
          .documents = plan.documents(),
          .vocabulary = model.vocab_size,
          .norm = {.is_layer_norm = model.normalization == sim::Norm::layer_norm,
                   .epsilon_numerator = model.norm_epsilon.numerator,
                   .epsilon_denominator = model.norm_epsilon.denominator},
          .activation = static_cast<reference::Activation>(model.activation),
          .gated = model.gated,
          .learned_positions = model.rotary_base == 0,
          .tied = !model.untie_embeddings_and_output_weights,
          .experts = plan.has_experts() ? plan.experts().sizes() : reference::GptExpertSizes{}};
}

/// Scores whose error decides whether a choice is certain. The field has no errors.
inline void keep_scores(Wholes<sim::Field>&, const std::string&, const reference::Matrix<sim::Field>&) {}
template <typename Scalar>
void keep_scores(Wholes<Scalar>& wholes, const std::string& name, const reference::Matrix<Scalar>& scores) {
  wholes[name] = scores;
}

template <typename Scalar>
class Training {
 public:
  Training(const Inputs<Scalar>& inputs, const GptPlan& plan, ChosenExperts* chosen)
      : inputs_(inputs),
        number_(inputs.number()),
        plan_(plan),
        model_(plan.model()),
        parameters_(plan.parameters()),
        chosen_(chosen) {
    for (const GptParameter& parameter : parameters_) {
      if (!parameter.same_as.empty()) continue;
      weights_[parameter.name] = initial(parameter);
      const auto zero = constant(parameter.rows, parameter.columns, 0);
      states_[parameter.name] = {weights_[parameter.name], zero, zero};
    }
    for (const auto& router : plan_.biased_routers())
      weights_[router.name + ".expert_bias"] = constant(1, plan_.experts().number(), 0);
  }

  Wholes<Scalar> outputs() {
    reference::NamedMatrices<Scalar> grads;
    for (std::int64_t step = 0; step < plan_.s["steps"]; ++step) {
      grads = gradients(step);
      update_expert_biases();
      if (plan_.skips(step)) continue;
      clip(step, grads);
      for (const GptParameter& parameter : parameters_)
        if (parameter.same_as.empty()) update(step, parameter, grads.at(parameter.name));
    }
    for (const GptParameter& parameter : parameters_) {
      const std::string& name = parameter.same_as.empty() ? parameter.name : parameter.same_as;
      wholes_[parameter.name] = weights_.at(name);
      if (plan_.shows_gradients()) wholes_[parameter.name + ".grad"] = grads.at(name);
      wholes_[parameter.name + ".main"] = states_.at(name).main;
      wholes_[parameter.name + ".exp_avg"] = states_.at(name).exp_avg;
      wholes_[parameter.name + ".exp_avg_sq"] = states_.at(name).exp_avg_sq;
    }
    for (const auto& router : plan_.biased_routers())
      wholes_[router.name + ".expert_bias"] = weights_.at(router.name + ".expert_bias");
    if (plan_.is_scaled()) wholes_["loss_scale"] = constant(1, 1, plan_.last_loss_scale());
    reference::Matrix<Scalar> most(1, plan_.pp());
    for (int rank = 0; rank < plan_.pp(); ++rank)
      most(0, rank) = number_.of(reference::most_activations(plan_.pipeline_order(), rank), 1);
    wholes_["most_in_flight"] = most;
    return std::move(wholes_);
  }

 private:
  using Passes = std::vector<typename reference::Gpt<Scalar>::Pass>;

  reference::Matrix<Scalar> constant(std::int64_t rows, std::int64_t columns, std::int64_t n) const {
    return reference::Matrix<Scalar>::Constant(rows, columns, number_.of(n, 1));
  }

  reference::Matrix<Scalar> initial(const GptParameter& parameter) const {
    auto values = inputs_.parameter(parameter.name, parameter.rows, parameter.columns, model_.initial.scale);
    if (!parameter.is_norm) return values;
    return reference::matrix_of(number_, values.rows(), values.cols(), [&](Eigen::Index i, Eigen::Index j) {
      return values(i, j) + number_.of(1, 1);
    });
  }

  reference::Matrix<Scalar> rotary(bool is_sine) const {
    if (model_.latent)
      return rotary_table(number_, model_.seq_length, model_.latent->qk_pos_emb_head_dim,
                          model_.latent->rotary_base, is_sine);
    return model_.rotary_base == 0
               ? reference::Matrix<Scalar>()
               : rotary_table(number_, model_.seq_length, model_.kv_channels, model_.rotary_base, is_sine);
  }

  reference::Ids ids(const char* what, std::int64_t sample, const std::vector<std::int32_t>& own) const {
    return inputs_.ids(fmt::format("the {} of sample {}", what, sample), {own.begin(), own.end()});
  }

  /// Returns the gradients of the objective of a step.
  reference::NamedMatrices<Scalar> gradients(std::int64_t step) {
    const reference::Gpt<Scalar> gpt(number_, sizes_of(plan_, model_), weights_, rotary(false), rotary(true));
    const std::int64_t size = model_.micro_batch_size, batch = plan_.global_batch();
    balance_counts_.clear();
    dispatched_.clear();
    kept_.clear();
    reference::NamedSums<Scalar> sums;
    reference::Sum<Scalar> loss;
    std::int64_t all_tokens = 0;
    const std::int64_t together = samples_counted_together();
    for (std::int64_t first = step * batch; first < (step + 1) * batch; first += together) {
      const Passes passes = forward(gpt, first, together);
      for (std::int64_t i = 0; i < together; ++i) {
        const std::int64_t number = first + i, microbatch = number - (number - step * batch) % size;
        const std::int64_t tokens = tokens_of(microbatch);
        if (number == microbatch) all_tokens += tokens;
        const reference::Matrix<Scalar> shares = shares_of_tokens(microbatch, tokens);
        const auto losses = gpt.losses_and_gradients(
            passes[static_cast<std::size_t>(i)], ids("labels", number, plan_.reference_sample(number).labels),
            shares, sums, [&](std::int64_t layer, const reference::Matrix<Scalar>& logits) {
              return balance_gradient(step, number, layer, logits);
            });
        for (Eigen::Index t = 0; t < losses.size(); ++t) loss.add(losses.data()[t] * shares(0, t));
      }
    }
    const Scalar rest = number_.of(1, plan_.per_token() ? std::max<std::int64_t>(all_tokens, 1) : plan_.dp());
    wholes_[fmt::format("loss of step {}", step)] =
        reference::Matrix<Scalar>::Constant(1, 1, loss.value() * rest);
    reference::NamedMatrices<Scalar> grads = sums.times(rest);
    for (const GptParameter& parameter : parameters_)
      if (parameter.same_as.empty())
        grads.try_emplace(parameter.name, constant(parameter.rows, parameter.columns, 0));
    return grads;
  }

  /// How many tokens of the microbatch that begins with this sample have a loss.
  std::int64_t tokens_of(std::int64_t first) const {
    std::int64_t tokens = 0;
    for (std::int64_t b = 0; b < model_.micro_batch_size; ++b)
      tokens += tokens_with_loss(plan_.reference_sample(first + b));
    return tokens;
  }

  /// Returns the weight of the loss of each token of a microbatch, [1, S], before the mean over replicas.
  /// Where context-parallel ranks divide by their own tokens, the objective is the mean over these ranks.
  reference::Matrix<Scalar> shares_of_tokens(std::int64_t first, std::int64_t tokens) const {
    reference::Matrix<Scalar> shares = constant(1, model_.seq_length, 1);
    if (plan_.per_token()) return shares;
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(plan_.cp()));
    for (std::int64_t b = 0; b < model_.micro_batch_size; ++b) {
      const sim::Sample sample = plan_.reference_sample(first + b);
      for (std::int64_t t = 0; t < model_.seq_length; ++t)
        if (sample.labels[static_cast<std::size_t>(t)] != sim::kIgnoredLabel)
          ++of_rank[static_cast<std::size_t>(plan_.cp_rank_of(t))];
    }
    for (std::int64_t t = 0; t < model_.seq_length; ++t) {
      const std::int64_t divisor =
          plan_.has_loss_of_ranks()
              ? plan_.cp() * std::max<std::int64_t>(of_rank[static_cast<std::size_t>(plan_.cp_rank_of(t))], 1)
              : std::max<std::int64_t>(tokens, 1);
      shares(0, t) = number_.of(1, divisor * plan_.microbatches());
    }
    return shares;
  }

  // ---- experts

  /// For each sample and layer, how many tokens count for each expert.
  using Counts = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>>;

  /// The samples whose tokens a balance loss counts before it has a gradient: those of a microbatch, on all
  /// data-parallel ranks if the loss counts the tokens of all.
  std::int64_t samples_counted_together() const {
    const bool is_global = plan_.has_experts() && plan_.experts().balance() == Balance::global_aux_loss;
    return model_.micro_batch_size * (is_global ? plan_.dp() : 1);
  }

  /// Returns the passes of `count` samples through all layers, and takes their routers.
  Passes forward(const reference::Gpt<Scalar>& gpt, std::int64_t first, std::int64_t count) {
    Passes passes;
    for (std::int64_t sample = first; sample < first + count; ++sample)
      passes.push_back(gpt.start(ids("tokens", sample, plan_.reference_sample(sample).tokens)));
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      for (auto& pass : passes) gpt.pass_attention(layer, pass);
      if (plan_.has_experts() && plan_.experts().are_in(layer)) choose_experts(first, layer, passes);
      for (std::size_t i = 0; i < passes.size(); ++i)
        gpt.pass_mlp(layer, passes[i], takes(first + static_cast<std::int64_t>(i)));
    }
    return passes;
  }

  /// Takes the routers of a layer. Tokens of a microbatch share capacities: once all have chosen, each expert
  /// keeps some of them.
  void choose_experts(std::int64_t first, std::int64_t layer, const Passes& passes) {
    const std::int64_t size = model_.micro_batch_size;
    for (std::int64_t i = 0; plan_.experts().has_capacity() && i < std::ssize(passes); i += size) {
      std::vector<reference::Router<Scalar>> routers;
      for (std::int64_t b = 0; b < size; ++b)
        routers.push_back(passes[static_cast<std::size_t>(i + b)].router(layer));
      keep_tokens(first + i, layer, routers);
    }
    for (std::size_t i = 0; i < passes.size(); ++i)
      take_router(first + static_cast<std::int64_t>(i), layer, passes[i].router(layer));
  }

  /// Each rank that has tokens of a microbatch gives its own to the experts. Its rows are those of a position
  /// in all samples, and then those of the next one.
  void keep_tokens(std::int64_t first, std::int64_t layer,
                   const std::vector<reference::Router<Scalar>>& routers) {
    const std::int64_t size = std::ssize(routers), own = model_.tokens() / plan_.tp();
    for (std::int64_t b = 0; b < size; ++b)
      kept_[{first + b, layer}].resize(static_cast<std::size_t>(model_.seq_length));
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;  // sample and token, rank after rank
    for (const std::vector<std::int64_t>& tokens : plan_.tokens_of_cp_ranks())
      for (const std::int64_t token : tokens)
        for (std::int64_t b = 0; b < size; ++b) rows.emplace_back(b, token);
    const auto router_of = [&](Eigen::Index row) -> const reference::Router<Scalar>& {
      return routers[static_cast<std::size_t>(rows[static_cast<std::size_t>(row)].first)];
    };
    const auto token_of = [&](Eigen::Index row) { return rows[static_cast<std::size_t>(row)].second; };
    const auto is_chosen = [&](Eigen::Index row, Eigen::Index e) {
      return router_of(row).is_chosen(token_of(row), e);
    };
    const auto probabilities = reference::matrix_of(
        number_, std::ssize(rows), plan_.experts().number(),
        [&](Eigen::Index row, Eigen::Index e) { return router_of(row).probabilities()(token_of(row), e); });
    const reference::CapacitySetting setting = plan_.experts().capacity(own);
    const auto kept = reference::kept_tokens<Scalar>(probabilities, is_chosen, setting).kept;
    for (std::size_t row = 0; row < rows.size(); ++row)
      kept_.at({first + rows[row].first, layer})[static_cast<std::size_t>(rows[row].second)] = kept[row];
    if (setting.by_probability) keep_probabilities(first, layer, probabilities, is_chosen, own);
  }

  /// The probabilities of the tokens of each rank by which an expert keeps them, a row for each of both.
  template <typename IsChosen>
  void keep_probabilities(std::int64_t first, std::int64_t layer,
                          const reference::Matrix<Scalar>& probabilities, const IsChosen& is_chosen,
                          std::int64_t own) {
    const Eigen::Index experts = probabilities.cols();
    const auto by_expert = reference::matrix_of(
        number_, probabilities.rows() / own * experts, own, [&](Eigen::Index row, Eigen::Index t) {
          const Eigen::Index token = row / experts * own + t, e = row % experts;
          return is_chosen(token, e) ? probabilities(token, e) : number_.of(kNotChosen, 1);
        });
    keep_scores(wholes_,
                fmt::format("{}, {} of layer {}, sample {}", choice_name(first / plan_.global_batch()),
                            kKeptTokens, layer, first),
                by_expert);
  }

  /// Which tokens of a sample the experts take, if they have a capacity.
  std::function<bool(std::int64_t, Eigen::Index, Eigen::Index)> takes(std::int64_t sample) const {
    if (!plan_.has_experts() || !plan_.experts().has_capacity()) return nullptr;
    return [this, sample](std::int64_t layer, Eigen::Index token, Eigen::Index expert) -> bool {
      return kept_.at({sample, layer})[static_cast<std::size_t>(token)][static_cast<std::size_t>(expert)];
    };
  }

  void take_router(std::int64_t sample, std::int64_t layer, const reference::Router<Scalar>& router) {
    const GptExpertsPlan experts = plan_.experts();
    const auto name = [&](const char* what) {
      return fmt::format("{}, {} of layer {}, sample {}", choice_name(sample / plan_.global_batch()), what,
                         layer, sample);
    };
    keep_scores(wholes_, name("experts"), router.choice_scores());
    std::vector<std::int64_t> dispatched(static_cast<std::size_t>(experts.number()));
    std::vector<std::vector<Eigen::Index>> by_token;
    for (Eigen::Index t = 0; t < router.logits().rows(); ++t) {
      by_token.push_back(experts.has_capacity() ? taking(sample, layer, t) : router.experts_of(t));
      for (const Eigen::Index e : by_token.back()) ++dispatched[static_cast<std::size_t>(e)];
    }
    if (chosen_ != nullptr) chosen_->add(sample, layer, std::move(by_token));
    dispatched_[{sample, layer}] = dispatched;
    if (!experts.counts_tokens()) return;
    const reference::BalanceScores<Scalar> scores(number_, experts.score(), router.logits(), experts.topk());
    keep_scores(wholes_, name(kCountedExperts), scores.scores());
    std::vector<std::int64_t> counted(static_cast<std::size_t>(experts.number()));
    for (Eigen::Index t = 0; t < router.logits().rows(); ++t)
      for (const Eigen::Index e : scores.experts_of(t)) ++counted[static_cast<std::size_t>(e)];
    balance_counts_[{sample, layer}] = counted;
  }

  /// The experts that take a token, if they have a capacity.
  std::vector<Eigen::Index> taking(std::int64_t sample, std::int64_t layer, Eigen::Index token) const {
    const std::vector<bool>& kept = kept_.at({sample, layer})[static_cast<std::size_t>(token)];
    std::vector<Eigen::Index> experts;
    for (std::size_t e = 0; e < kept.size(); ++e)
      if (kept[e]) experts.push_back(static_cast<Eigen::Index>(e));
    return experts;
  }

  /// Returns the gradient of the logits of one sample that the losses of its router have.
  reference::Matrix<Scalar> balance_gradient(std::int64_t step, std::int64_t sample, std::int64_t layer,
                                             const reference::Matrix<Scalar>& logits) const {
    const GptExpertsPlan experts = plan_.experts();
    if (experts.balance() == Balance::none) return {};
    const sim::Ratio coefficient = GptExpertsPlan::kBalanceCoefficient;
    // With a loss per token, the loss of a microbatch is multiplied by its tokens.
    const Scalar share =
        plan_.per_token() ? number_.of(tokens_of_microbatch(), 1) : number_.of(1, plan_.microbatches());
    if (experts.balance() == Balance::z_loss) {
      const Scalar factor =
          number_.of(coefficient.numerator, coefficient.denominator * model_.micro_batch_size);
      return reference::z_loss(number_, logits, 1, factor * share).gradient;
    }
    const Load load = load_of(step, sample, layer);
    const Scalar factor = number_.of(coefficient.numerator * experts.number(),
                                     coefficient.denominator * load.sequences * experts.topk());
    const Scalar by_tokens = number_.of(1, load.tokens);
    const auto slopes =
        reference::matrix_of(number_, logits.rows(), logits.cols(), [&](Eigen::Index, Eigen::Index e) {
          const Scalar counted = number_.of(load.counted[static_cast<std::size_t>(e)], load.microbatches);
          return counted * factor * by_tokens * by_tokens * share;
        });
    return reference::BalanceScores<Scalar>(number_, experts.score(), logits, experts.topk())
        .gradient(slopes);
  }

  /// The tokens of a microbatch on all context-parallel ranks.
  std::int64_t tokens_of_microbatch() const { return model_.seq_length * model_.micro_batch_size; }

  /// What a balance loss counts.
  struct Load {
    std::vector<std::int64_t> counted;  // by expert
    std::int64_t microbatches = 1;      // the counts are a mean over so many microbatches
    std::int64_t tokens = 1;
    std::int64_t sequences = 1;  // the loss is a mean over so many sequences
  };
  Load load_of(std::int64_t step, std::int64_t sample, std::int64_t layer) const {
    const std::int64_t size = model_.micro_batch_size;
    Load load{.counted = std::vector<std::int64_t>(static_cast<std::size_t>(plan_.experts().number()))};
    const auto add = [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i)
        for (std::size_t e = 0; e < load.counted.size(); ++e)
          load.counted[e] += balance_counts_.at({i, layer})[e];
    };
    const std::int64_t begin = step * plan_.global_batch(), group = (sample - begin) / size;
    switch (plan_.experts().balance()) {
      case Balance::seq_aux_loss:
        add(sample, 1);
        load.tokens = model_.seq_length;
        load.sequences = size;
        break;
      case Balance::global_aux_loss:
        // A microbatch of all data-parallel ranks has dp * size samples, one after the other.
        load.microbatches = group / plan_.dp() + 1;
        add(begin, load.microbatches * plan_.dp() * size);
        load.tokens = tokens_of_microbatch() * plan_.dp();
        break;
      default:
        add(begin + group * size, size);
        load.tokens = tokens_of_microbatch();
    }
    return load;
  }

  /// Moves each expert's bias up if it has fewer tokens than the mean, and down if it has more.
  void update_expert_biases() {
    for (const auto& router : plan_.biased_routers()) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(plan_.experts().number()));
      std::int64_t all = 0;
      for (const auto& [place, counts] : dispatched_) {
        if (place.second != router.layer) continue;
        for (std::size_t e = 0; e < tokens.size(); ++e) {
          tokens[e] += counts[e];
          all += counts[e];
        }
      }
      auto& bias = weights_.at(router.name + ".expert_bias");
      for (std::size_t e = 0; e < tokens.size(); ++e) {
        const std::int64_t missing = all - tokens[e] * std::ssize(tokens);
        const std::int64_t sign = missing > 0 ? 1 : missing < 0 ? -1 : 0;
        const sim::Ratio rate = GptExpertsPlan::kBiasRate;
        auto& own = bias(0, static_cast<Eigen::Index>(e));
        own = own + number_.of(sign * rate.numerator, rate.denominator);
      }
    }
  }

  // ---- the optimizer

  void clip(std::int64_t step, reference::NamedMatrices<Scalar>& grads) {
    reference::Sum<Scalar> squares;
    std::vector<reference::Matrix<Scalar>> all;
    for (const auto& [name, grad] : grads) {
      for (Eigen::Index i = 0; i < grad.size(); ++i) squares.add_product(grad.data()[i], grad.data()[i]);
      all.push_back(grad);
    }
    wholes_[fmt::format("grad norm squared of step {}", step)] =
        reference::Matrix<Scalar>::Constant(1, 1, squares.value());
    if (plan_.s["clip"] == 0) return;
    const Scalar factor = reference::clip_factor(number_, all, {1, 2});
    for (auto& [name, grad] : grads) {
      for (Eigen::Index i = 0; i < grad.size(); ++i) grad.data()[i] = grad.data()[i] * factor;
    }
  }

  void update(std::int64_t step, const GptParameter& parameter, const reference::Matrix<Scalar>& grad) {
    reference::AdamState<Scalar>& state = states_.at(parameter.name);
    reference::Matrix<Scalar>& weight = weights_.at(parameter.name);
    reference::adam(number_,
                    {.learning_rate = {plan_.learning_rate().numerator, plan_.learning_rate().denominator},
                     .beta1 = {9, 10},
                     .beta2 = {999, 1000},
                     .epsilon = {plan_.adam_epsilon().numerator, plan_.adam_epsilon().denominator},
                     .weight_decay = {parameter.is_vector ? 0 : 1, 4},
                     .step = plan_.updates_before(step) + 1},
                    grad, state);
    for (Eigen::Index i = 0; i < weight.size(); ++i) weight.data()[i] = number_.stored(state.main.data()[i]);
    if (!plan_.is_bf16()) state.main = weight;
  }

  const Inputs<Scalar>& inputs_;
  const reference::Number<Scalar> number_;
  const GptPlan& plan_;
  sim::GptConfig model_;
  std::vector<GptParameter> parameters_;
  ChosenExperts* chosen_;
  reference::NamedMatrices<Scalar> weights_;
  std::map<std::string, reference::AdamState<Scalar>> states_;
  Wholes<Scalar> wholes_;
  Counts balance_counts_, dispatched_;
  /// For each sample and layer, which experts take a token, by token and expert.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::vector<bool>>> kept_;
};

}  // namespace verify::gpt_reference_training

namespace verify {

template <typename Scalar>
Wholes<Scalar> gpt_reference(const Inputs<Scalar>& inputs, const GptPlan& plan, ChosenExperts* chosen) {
  return gpt_reference_training::Training<Scalar>(inputs, plan, chosen).outputs();
}

}  // namespace verify
