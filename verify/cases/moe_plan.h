#pragma once

/// The plan of a trial of a layer of experts, derived from a setting: its grids, its sizes and its router.
///
/// Shapes  the world has tp x dp ranks for dense parameters, and etp x ep x edp ranks for experts, where tp,
///         etp and ep are the largest divisors that do not exceed the dimensions of these names. Rank r owns
///         tokens r T to (r + 1) T - 1 of all. Experts are a multiple of ep, F is a multiple of etp, and the
///         size of the shared experts is a multiple of tp.

#include <algorithm>
#include <cstdint>

#include "sim/experts/moe_layer.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_setting.h"
#include "verify/reference/router.h"

namespace verify {

/// The sizes of the axes of both grids, which are derived once. The setting of a router has no experts, and
/// that of a dispatcher has no tensor parallelism.
struct MoeGrid {
  int tp, etp, ep;
  explicit MoeGrid(const CaseSetting& s)
      : tp(largest_divisor(s.group_size, s.fixed("tp", 1))),
        etp(largest_divisor(s.group_size, s.fixed("etp", 1))),
        ep(largest_divisor(s.group_size / etp, s.fixed("ep", 1))) {}
};

struct MoePlan {
  const CaseSetting& s;
  const MoeGrid grid = MoeGrid(s);

  int tp() const { return grid.tp; }
  int etp() const { return grid.etp; }
  int ep() const { return grid.ep; }
  int ep_rank(int rank) const { return rank / etp() % ep(); }
  int etp_rank(int rank) const { return rank % etp(); }

  std::int64_t experts() const { return ep() * s["local_experts"]; }
  std::int64_t topk() const { return std::min(s["topk"], experts()); }
  std::int64_t tokens() const { return s["tokens"]; }
  std::int64_t all_tokens() const { return s.group_size * tokens(); }
  std::int64_t ffn() const { return etp() * s["ffn"]; }
  std::int64_t shared_ffn() const { return s["shared"] == 0 ? 0 : tp() * s["ffn"]; }
  bool is_gated() const { return s["gated"] == 1; }
  bool has_bias() const { return s["bias"] == 1 && etp() == 1; }
  bool has_groups() const { return s["groups"] == 1 && experts() % 2 == 0 && topk() <= experts() / 2; }
  sim::TokenDispatcherType dispatcher() const {
    return static_cast<sim::TokenDispatcherType>(s["dispatcher"]);
  }

  /// Scores: softmax of the chosen logits, softmax of all logits, sigmoid, and the root of softplus. With
  /// special values the score is a softmax: the other functions and their derivatives are computed in other
  /// steps by the reference, and vanish or overflow elsewhere.
  bool is_pre_softmax() const { return s["score"] == 1; }
  int score() const {
    const std::int64_t most = s.special == Special::none ? 2 : 0;
    return static_cast<int>(std::clamp<std::int64_t>(s["score"] - 1, 0, most));
  }
  /// Probabilities are multiplied by 5/2 in some trials.
  bool is_scaled() const { return s["scaled"] == 1; }

  /// Groups of experts, and how many of them survive the choice of a token.
  struct Groups {
    std::int64_t all = 0;
    std::int64_t survivors = 0;
  };
  Groups groups() const { return has_groups() ? Groups{2, 1} : Groups{}; }

  sim::TopKRoutingConfig routing(std::int64_t chosen, const Groups& of) const {
    return {.topk = chosen,
            .score_function = static_cast<sim::ScoreFunction>(score()),
            .pre_softmax = is_pre_softmax(),
            .scaling_factor = is_scaled() ? sim::Ratio{5, 2} : sim::Ratio{1, 1},
            .force_load_balancing = s.fixed("balanced", 0) == 1,
            .num_groups = of.all,
            .group_topk = of.survivors};
  }
  reference::RouterSetting reference(std::int64_t chosen, const Groups& of) const {
    return {.topk = chosen,
            .score = static_cast<reference::RouterScore>(score()),
            .pre_softmax = is_pre_softmax(),
            .scaling_numerator = is_scaled() ? 5 : 1,
            .scaling_denominator = is_scaled() ? 2 : 1,
            .groups = of.all,
            .group_topk = of.survivors};
  }

  sim::MoeLayerConfig layer() const {
    const bool sequence_parallel = tp() > 1;
    const sim::GatedActivation activation{static_cast<sim::Activation>(s["activation"]), is_gated()};
    sim::MoeLayerConfig config{.router = {.name = "mlp.router",
                                          .dtype = s.dtype,
                                          .hidden_size = s["hidden"],
                                          .num_experts = experts(),
                                          .routing = routing(topk(), groups()),
                                          .sequence_parallel = sequence_parallel},
                               .experts = {.name = "mlp.experts",
                                           .dtype = s.dtype,
                                           .hidden_size = s["hidden"],
                                           .ffn_hidden_size = ffn(),
                                           .activation = activation,
                                           .bias = has_bias()},
                               .dispatcher = dispatcher()};
    if (s["shared"] == 0) return config;
    config.shared_experts = {.mlp = {.name = "mlp.shared_experts",
                                     .dtype = s.dtype,
                                     .hidden_size = s["hidden"],
                                     .ffn_hidden_size = shared_ffn(),
                                     .activation = activation.function,
                                     .gated = is_gated(),
                                     .bias = false,
                                     .sequence_parallel = sequence_parallel},
                             .gate = s["shared"] == 2};
    return config;
  }

  reference::RouterSetting router() const { return reference(topk(), groups()); }
};

}  // namespace verify
