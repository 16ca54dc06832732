#pragma once

/// The plan of a trial of the auxiliary losses of a router, derived from a setting. Its grid is that of
/// router_plan.h.
///
/// Shapes  a rank has B sequences of S positions in each microbatch: token t is position t / B of sequence
///         t % B. Rank r owns tokens r S B to (r + 1) S B - 1 of each microbatch.
/// Exact   the gradients are those of a step of Megatron: each rank multiplies its losses by cp and divides
///         them by the microbatches, and the mean over the dp cp ranks is taken at the end.
///         With per_token nothing is divided here, because a step divides by the number of all tokens.

#include "verify/cases/router_plan.h"

namespace verify {

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
