#pragma once

/// The experts of a model at its full size. Which experts a router chooses depends on its scores, and a
/// device of shapes has none. The choice is therefore defined to be balanced: token t of a rank goes to the
/// experts t k, t k + 1, ..., t k + k - 1, modulo E, where k is topk. A real router is uneven.
///
/// Shapes  k = --moe-router-topk, E = --num-experts. A token is one that the rank owns.
/// Calls   in closed form: those of verify/cases/expert_calls.h. Neighbouring experts often live on one rank,
///         so that flex sends few copies of a token; the other dispatchers send as many rows as for every
///         other choice that is as even.
/// Exact   Every expert has as many tokens of a rank as every other one, or one more. All ranks choose alike.
///         Scores, groups and expert biases decide nothing; the calls that move the biases are made.
///         A capacity keeps the first tokens of an expert.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/model/gpt_config.h"
#include "verify/cases/expert_calls.h"
#include "verify/requests/scenario_request.h"

namespace verify {

bool has_experts(const ScenarioRequest& request);

/// Returns why a step with these experts is not run; "" if it is.
std::string why_no_experts(const ScenarioRequest& request);

/// Returns what is said of the choice: "balanced choice: ..."; "" for a dense model.
std::string text_of_choice(const ScenarioRequest& request);

/// Returns the experts of the model that runs.
sim::GptExperts full_size_experts(const ScenarioRequest& request);

/// What each rank sends to each ep rank in one layer: rows, one for each expert, and tokens that chose one of
/// its experts. Tokens are not counted where rows are padded to a capacity.
struct BalancedRows {
  std::vector<std::int64_t> rows_to_ep, tokens_to_ep;
  /// Whether all ep ranks are sent equally much, so that their calls are the same.
  bool is_even() const;
  std::int64_t most_rows() const;
};
BalancedRows balanced_rows(const ScenarioRequest& request);

/// Returns the calls of a dispatcher by the ranks at a place in ep. Those of one expert-tensor-parallel group
/// make the same calls.
ExpertCalls balanced_dispatch(const ScenarioRequest& request, const BalancedRows& rows, int ep_rank);

/// Returns the calls that sum the counts of the balance losses of one router.
std::vector<ExpectedCall> balance_loss_calls(const ScenarioRequest& request);

}  // namespace verify
