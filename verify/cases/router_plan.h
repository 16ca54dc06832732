#pragma once

/// The plan of a trial of a router, derived from a setting: its grid, its sizes, and what it is configured
/// with. The cases moe_router and moe_aux_loss use it.
///
/// Shapes  the world has tp x cp x dp ranks, where tp and cp are the largest divisors that do not exceed the
///         dimensions of these names. Rank r owns tokens r T to (r + 1) T - 1 of all. Ranks of tp-cp are
///         adjacent.

#include <functional>

#include "sim/experts/router.h"
#include "verify/cases/moe_plan.h"
#include "verify/reference/expert_capacity.h"

namespace verify {

struct RouterPlan {
  const CaseSetting& s;

  MoePlan moe() const { return {s}; }
  int tp() const { return moe().tp(); }
  int cp() const { return largest_divisor(s.group_size / tp(), s["cp"]); }
  int dp() const { return s.group_size / tp() / cp(); }
  sim::ParallelSizes sizes() const {
    return {.world_size = s.group_size, .tensor_model_parallel_size = tp(), .context_parallel_size = cp()};
  }
  std::int64_t experts() const { return s["experts"]; }
  std::int64_t topk() const { return std::min(s["topk"], experts()); }

  /// Ranks of tp and of cp own tokens in the same way: in the field all ranks of tp-cp may be ranks of cp.
  std::vector<CaseSetting> twins() const {
    std::vector<CaseSetting> all = {s};
    if (s.dtype != sim::DType::field) return all;
    all.push_back(s);
    all.back().dimensions["tp"] = 1;
    all.back().dimensions["cp"] = tp() * cp();
    return all;
  }
  /// The gradient of the weight: ranks of tp hold copies of their sum, and the others terms of it.
  CaseOutput weight_gradient() const {
    CaseOutput output{.name = "weight_grad", .adds = true};
    for (int rank = 0; rank < s.group_size; ++rank) output.part_of.push_back(rank % tp());
    return output;
  }
};

/// The plan of the case moe_router.
struct ChoicePlan {
  const CaseSetting& s;

  RouterPlan router() const { return {s}; }
  std::int64_t tokens() const { return s["tokens"]; }
  std::int64_t all_tokens() const { return s.group_size * tokens(); }

  /// Groups: none, 1 of 2, 2 of 4, or 3 of 3 survive. Where the experts and topk do not allow those that are
  /// drawn, it is the ones before them.
  using Groups = MoePlan::Groups;
  Groups groups() const;
  bool has_bias() const { return s["expert_bias"] == 1 && router().moe().score() != 0; }
  bool has_z_loss() const { return s["z_loss"] == 1; }
  bool is_per_token() const { return s["per_token"] == 1; }
  /// The dtype in which the router computes: that of the hidden states, or f32 for those of bf16.
  sim::DType dtype() const;
  /// Whether a token of this number is 0, so that all of its logits are equal. In floats nothing that follows
  /// from a choice among equal scores is judged, so that there are no such tokens.
  bool is_zero(std::int64_t token) const;

  /// Whether a token is padding. With padding, the last one of every second rank is. It is routed all the
  /// same, but has no part in the z-loss, nor in the counts that move a bias. Where tokens are dropped there
  /// is no padding, because a device of shapes does not know which tokens are dropped.
  bool is_padding(std::int64_t token) const;
  bool has_padding() const {
    return s["padding"] == 1 && tokens() > 1 && s.group_size > 1 && !has_capacity();
  }

  bool has_capacity() const { return s["dropping"] > 0; }
  reference::CapacitySetting capacity() const;

  sim::TopKRouterConfig config() const;
  reference::RouterSetting reference() const { return MoePlan{s}.reference(router().topk(), groups()); }
};

inline constexpr sim::Ratio kZLossCoefficient = {1, 4};
inline constexpr sim::Ratio kAuxLossScale = {3, 2};
inline constexpr sim::Ratio kBiasRate = {1, 8};

/// What a planted mistake changes.
struct RouterMistake {
  std::function<void(sim::TopKRouterConfig& config)> config = nullptr;
  /// What the second forward of a recomputation keeps for backward.
  std::function<void(sim::TopKRouter::Saved& saved)> recomputed = nullptr;
};

/// Runs the router on drawn tokens, forward and backward, moves its bias, and publishes the outputs of the
/// case. With recomputation the first forward neither counts nor attaches losses, and the second one does.
void run_router(sim::Rank& rank, const CaseSetting& s, const RouterMistake& mistake = {});

// The plan of a trial of the auxiliary losses of a router, derived from a setting. Its grid is that of
// router_plan.h.
//
// Shapes  a rank has B sequences of S positions in each microbatch: token t is position t / B of sequence
//         t % B. Rank r owns tokens r S B to (r + 1) S B - 1 of each microbatch.
// Exact   the gradients are those of a step of Megatron: each rank multiplies its losses by cp and divides
//         them by the microbatches, and the mean over the dp cp ranks is taken at the end.
//         With per_token nothing is divided here, because a step divides by the number of all tokens.

struct AuxLossPlan {
  const CaseSetting& s;

  RouterPlan router() const { return {s}; }
  std::int64_t batch() const { return s["batch"]; }
  std::int64_t tokens() const { return s["sequence"] * batch(); }
  std::int64_t all_tokens() const { return s.group_size * tokens(); }
  std::int64_t microbatches() const { return s["microbatches"]; }
  bool has(sim::AuxLossKind kind) const;
  bool has_losses() const { return !config().aux_losses.empty(); }
  bool has_padding() const { return s["padding"] == 1; }
  bool is_per_token() const { return s["per_token"] == 1; }
  /// The first token of each rank is no padding.
  bool is_padding(std::int64_t microbatch, std::int64_t token) const;
  sim::Ratio scale_of_loss() const {
    return is_per_token() ? sim::Ratio{1, 1} : sim::Ratio{router().cp(), microbatches()};
  }
  sim::Ratio scale_of_gradients() const { return {1, is_per_token() ? 1 : router().dp() * router().cp()}; }
  sim::TopKRouterConfig config() const;
};

inline constexpr sim::AuxLossKind kAuxLossKinds[] = {
    sim::AuxLossKind::aux_loss, sim::AuxLossKind::seq_aux_loss, sim::AuxLossKind::global_aux_loss};
/// By kind.
inline constexpr sim::Ratio kAuxLossCoefficients[] = {{1, 2}, {3, 4}, {1, 4}};
inline constexpr const char* kAuxLossNames[] = {"aux_loss", "seq_aux_loss", "global_aux_loss"};

/// What a planted mistake changes.
struct AuxLossMistake {
  std::function<void(sim::TopKRouterConfig& config)> config = nullptr;
  std::function<void(sim::Ratio& scale)> scale_of_loss = nullptr;
  bool is_tracker_kept = true;  // global_aux_loss averages over the microbatches of a step
};

/// Runs the router on the microbatches of a step, where the gradient of the probabilities is 0, and publishes
/// the outputs of the case.
void run_aux_losses(sim::Rank& rank, const CaseSetting& s, const AuxLossMistake& mistake = {});

}  // namespace verify
