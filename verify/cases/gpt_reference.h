#pragma once

/// The reference of a planned GPT training: the training on one device, sequence by sequence.
///
/// Exact   The objective is the mean over microbatches of the mean over a microbatch's tokens, or the mean
///         over all tokens. Losses of routers are losses of one microbatch; those that count the tokens of
///         several data-parallel ranks are computed with the same shards, and divided as Megatron does
///         (sim/experts/aux_loss.h). Experts with a capacity keep tokens of each rank by themselves, so that
///         the ranks that share a microbatch are a part of the definition. Scalars that have an error also
///         return the scores by which experts were chosen, under names that begin with choice_name() of the
///         step.

#include "verify/cases/gpt_plan.h"

namespace verify {

/// The experts of every token of a training; with a capacity, those that take it.
class ChosenExperts {
 public:
  void add(std::int64_t sample, std::int64_t layer, std::vector<std::vector<Eigen::Index>> by_token) {
    chosen_[{sample, layer}] = std::move(by_token);
  }
  /// Whether a token of a sample, which are numbered over all steps, goes to an expert in a layer.
  bool has(std::int64_t sample, std::int64_t layer, std::int64_t token, std::int64_t expert) const {
    const auto& experts = chosen_.at({sample, layer})[static_cast<std::size_t>(token)];
    return std::ranges::find(experts, expert) != experts.end();
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::vector<Eigen::Index>>> chosen_;
};

/// What the names of scores begin with, in the order of the steps.
inline constexpr const char* kChoice = "choice in step ";
/// What the names of scores contain by which a balance loss counts tokens.
inline constexpr const char* kCountedExperts = "counted experts";
/// What the names of probabilities contain by which experts keep tokens, by expert; a token that did not
/// choose the expert has kNotChosen.
inline constexpr const char* kKeptTokens = "kept tokens";
inline constexpr std::int64_t kNotChosen = -1;
std::string choice_name(std::int64_t step);

/// Returns how many tokens of a sample have a loss.
std::int64_t tokens_with_loss(const sim::Sample& sample);

/// Returns the outputs of the training. `chosen`, which may be null, receives the experts of all tokens.
template <typename Scalar>
Wholes<Scalar> gpt_reference(const Inputs<Scalar>& inputs, const GptPlan& plan,
                             ChosenExperts* chosen = nullptr);

}  // namespace verify
