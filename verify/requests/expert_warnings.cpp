#include "verify/requests/expert_warnings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verify {

namespace {

bool is_balanced_by(const LoadBalancing& balancing, const char* type) {
  return balancing.type == type && balancing.coefficient.numerator > 0;
}

bool is_auxiliary(const LoadBalancing& balancing) {
  return is_balanced_by(balancing, "aux_loss") || is_balanced_by(balancing, "seq_aux_loss") ||
         is_balanced_by(balancing, "global_aux_loss");
}

/// Why tokens go to other experts than those that the losses count.
std::vector<std::string> choices_beyond_counts(const ExpertOptions& experts) {
  std::vector<std::string> all;
  if (experts.group_topk > 0) all.emplace_back("--moe-router-group-topk");
  if (experts.expert_bias) all.emplace_back("--moe-router-enable-expert-bias");
  if (experts.capacity_factor) all.emplace_back("--moe-expert-capacity-factor");
  return all;
}

}  // namespace

std::vector<sim::Warning> expert_warnings(const ExpertOptions& experts, const sim::Layout& layout,
                                          bool per_token_loss) {
  std::vector<sim::Warning> warnings;
  if (experts.num_experts == 0) return warnings;
  const auto& balancing = experts.load_balancing;
  const bool is_global = std::any_of(balancing.begin(), balancing.end(),
                                     [](const auto& one) { return is_balanced_by(one, "global_aux_loss"); });
  const bool has_loss = std::any_of(balancing.begin(), balancing.end(), is_auxiliary);
  if (is_global && layout.dp > 1) {
    warnings.push_back(
        {"global_aux_loss_over_dp",
         fmt::format("Megatron divides the gradient of global_aux_loss by dp once more than its coefficient "
                     "says: with dp {} the coefficient acts as 1/{} of what is given",
                     layout.dp, layout.dp)});
  }
  const std::vector<std::string> others = choices_beyond_counts(experts);
  if (has_loss && !others.empty()) {
    warnings.push_back({"aux_loss_counts",
                        fmt::format("the auxiliary loss counts the experts of a plain top-k, and not those "
                                    "that tokens go to with {}",
                                    fmt::join(others, " and "))});
  }
  const int sharing = layout.tp * layout.cp;
  if (per_token_loss && sharing > 1 && (has_loss || experts.z_loss_coefficient)) {
    warnings.push_back(
        {"per_token_aux_loss",
         fmt::format("with --calculate-per-token-loss the auxiliary losses are exact only if all {} ranks of "
                     "tp-cp have as many valid tokens",
                     sharing)});
  }
  return warnings;
}

}  // namespace verify
