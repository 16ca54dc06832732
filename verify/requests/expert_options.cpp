#include "verify/requests/expert_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

sim::Ratio coefficient_of(const std::string& option, const std::string& word) {
  const auto ratio = decimal_ratio(word);
  if (ratio && ratio->numerator >= 0) return *ratio;
  refuse_by("not_a_number/coefficient", "--" + option, word.substr(0, 100));
}

sim::Ratio coefficient(const Settings& settings, const std::string& option, sim::Ratio fallback) {
  return settings.has(option) ? coefficient_of(option, settings.text(option, "")) : fallback;
}

/// Every type has its coefficient. Megatron refuses lists of different lengths.
std::vector<LoadBalancing> load_balancing(const Settings& settings) {
  constexpr const char* kTypes = "moe-router-load-balancing-type";
  constexpr const char* kCoefficients = "moe-aux-loss-coeff";
  std::vector<LoadBalancing> all;
  for (const std::string& type :
       settings.has(kTypes) ? settings.texts(kTypes) : std::vector<std::string>{"aux_loss"})
    all.push_back({.type = type});
  const std::vector<std::string> words = settings.texts(kCoefficients);
  for (std::size_t i = 0; i < std::min(all.size(), words.size()); ++i)
    all[i].coefficient = coefficient_of(kCoefficients, words[i]);
  return all;
}

/// A factor below 0 is none.
std::optional<double> capacity_factor(const Settings& settings) {
  const auto factor = decimal_number(settings.text("moe-expert-capacity-factor", ""));
  return factor && *factor >= 0 ? factor : std::nullopt;
}

/// A layout alone may have a grid of experts whose number it does not say.
bool may_have_experts(const Settings& settings) {
  if (settings.has("num-experts")) return settings.number("num-experts") > 0;
  return settings.number("expert-model-parallel-size").value_or(1) > 1 ||
         settings.has("expert-tensor-parallel-size");
}

}  // namespace

ExpertOptions expert_options(const Settings& settings) {
  const sim::Ratio z_loss = coefficient(settings, "moe-z-loss-coeff", {0, 1});
  ExpertOptions options{
      .num_experts = settings.number("num-experts").value_or(0),
      .moe_ffn_hidden_size =
          settings.number("moe-ffn-hidden-size").value_or(ffn_hidden_size(settings).value_or(0)),
      .moe_router_topk = settings.number("moe-router-topk").value_or(2),
      .score_function = settings.choice("moe-router-score-function"),
      .pre_softmax = settings.flag("moe-router-pre-softmax"),
      .topk_scaling_factor = coefficient(settings, "moe-router-topk-scaling-factor", {1, 1}),
      .num_groups = settings.number("moe-router-num-groups").value_or(0),
      .group_topk = settings.number("moe-router-group-topk").value_or(0),
      .expert_bias = settings.flag("moe-router-enable-expert-bias"),
      .bias_update_rate = coefficient(settings, "moe-router-bias-update-rate", {1, 1000}),
      .load_balancing = load_balancing(settings),
      .capacity_factor = capacity_factor(settings),
      .token_drop_policy = settings.choice("moe-token-drop-policy"),
      .pad_to_capacity = settings.flag("moe-pad-expert-input-to-capacity"),
      .dispatcher = settings.choice("moe-token-dispatcher-type"),
      .shared_expert_intermediate_size = settings.number("moe-shared-expert-intermediate-size").value_or(0),
      .shared_expert_gate = settings.flag("moe-shared-expert-gate")};
  if (settings.has("moe-layer-freq"))
    options.moe_layer_freq = parse_layer_pattern(settings.text("moe-layer-freq", ""));
  if (z_loss.numerator != 0) options.z_loss_coefficient = z_loss;
  return options;
}

void require_effective_expert_options(const Settings& settings) {
  if (may_have_experts(settings)) return;
  std::vector<std::string> given;
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.section == kExpertsSection && option.name != "num-experts" && settings.has(option.name) &&
        settings.text(option.name, "") != "false")
      given.push_back(fmt::format("--{}", option.name));
  }
  if (given.empty()) return;
  refuse_by("expert_options_without_experts", given.front(),
            given.size() == 1 ? "1 option is" : fmt::format("{} are", given.size()), fmt::join(given, ", "));
}

}  // namespace verify
