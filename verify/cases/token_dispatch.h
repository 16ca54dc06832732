#pragma once

/// Tokens that are dispatched to experts and combined again, forward and backward. The case token_dispatcher
/// uses it, and so do the planted programs that dispatch or combine wrongly.
///
/// Shapes  Grids, tokens and experts are those of moe_plan.h. Expert e multiplies a row by its probability,
///         and then by the matrix "expert.e.weight" [H, etp H], of which each rank of etp holds H columns.
///         Without matrices each rank of etp returns the row that was multiplied by its probability.
/// Exact   Routing is drawn: each pair of a token and an expert with 1/2; one expert for each token; tokens
///         of one rank alone; all tokens to one expert; no token at all; all tokens to all experts; as many
///         tokens of each rank for each expert as its capacity.

#include <functional>
#include <string>
#include <vector>

#include "sim/experts/routing_map.h"
#include "sim/experts/token_dispatcher.h"
#include "verify/cases/moe_plan.h"

namespace verify {

enum class DrawnRouting : std::uint8_t {
  any_pairs,
  one_expert_each,
  tokens_of_one_rank,
  all_to_one_expert,
  none,
  all_to_all_experts,
  full_capacity,
};
inline constexpr std::int64_t kLastRouting = static_cast<std::int64_t>(DrawnRouting::full_capacity);

struct TokenDispatch {
  const CaseSetting& s;

  MoePlan plan() const { return {s}; }
  bool has_matrices() const { return s["matrices"] == 1; }
  /// Whether token t of a rank goes to expert e.
  bool is_chosen(int rank, std::int64_t t, std::int64_t e) const;
  sim::RoutingMap map_of(int rank) const;
  std::optional<std::int64_t> capacity() const;

  static std::string name_of_weight(std::int64_t e) { return "expert." + std::to_string(e) + ".weight"; }

 private:
  DrawnRouting routing() const { return static_cast<DrawnRouting>(s["routing"]); }
  std::int64_t below(const char* name, std::int64_t index, std::int64_t bound) const;
};

/// The linear maps of one rank's experts.
class DrawnExperts {
 public:
  DrawnExperts(sim::Rank& rank, const CaseSetting& s);

  sim::Tensor forward(const sim::ExpertRows& rows);
  struct Gradients {
    sim::Tensor rows;   // [R, H]
    sim::Tensor probs;  // [R]
  };
  Gradients backward(const sim::Tensor& grad);
  /// Publishes the matrices with their gradients.
  void publish(sim::Rank& rank) const;

 private:
  struct Expert {
    std::string name;
    sim::Tensor weight, grad;
  };
  const CaseSetting& s_;
  std::vector<Expert> experts_;
  sim::ExpertRows rows_;
};

/// What a planted mistake changes: the outputs of the local experts, before they are combined.
using BeforeCombine =
    std::function<sim::Tensor(sim::Rank& rank, const sim::ExpertRows& rows, const sim::Tensor& outputs)>;

/// Dispatches and combines drawn tokens, and publishes the outputs of the case.
void run_token_dispatch(sim::Rank& rank, const CaseSetting& s, const BeforeCombine& before_combine = nullptr);

}  // namespace verify
