#include "verify/requests/expert_options.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/output/refusal_table.h"
#include "verify/vocabulary/derived_options.h"
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

template <typename Value>
std::optional<Value> named(std::string_view name, const auto& names) {
  const auto known = std::ranges::find(names, name);
  if (known == names.end()) return std::nullopt;
  return static_cast<Value>(known - names.begin());
}

constexpr std::array kLosses = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
constexpr std::array kScoreFunctions = {"softmax", "sigmoid", "sqrtsoftplus"};
constexpr std::array kDispatchers = {"allgather", "alltoall", "flex"};

/// Every type has its coefficient. Megatron refuses lists of different lengths.
std::vector<sim::AuxLoss> aux_losses(const Settings& settings) {
  constexpr const char* kTypes = "moe-router-load-balancing-type";
  constexpr const char* kCoefficients = "moe-aux-loss-coeff";
  const std::vector<std::string> types =
      settings.has(kTypes) ? settings.texts(kTypes) : std::vector<std::string>{"aux_loss"};
  const std::vector<std::string> words = settings.texts(kCoefficients);
  std::vector<sim::AuxLoss> losses;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const sim::Ratio coefficient =
        i < words.size() ? coefficient_of(kCoefficients, words[i]) : sim::Ratio{0, 1};
    if (const auto kind = named<sim::AuxLossKind>(types[i], kLosses)) losses.push_back({*kind, coefficient});
  }
  return losses;
}

/// A factor below 0 is none.
std::optional<sim::TokenDroppingConfig> token_dropping(const Settings& settings) {
  const auto factor = decimal_number(settings.text("moe-expert-capacity-factor", ""));
  if (!factor || *factor < 0) return std::nullopt;
  const bool is_by_place = settings.choice("moe-token-drop-policy") == "position";
  return sim::TokenDroppingConfig{
      .capacity_factor = *factor,
      .drop_policy = is_by_place ? sim::DropPolicy::position : sim::DropPolicy::probs,
      .pad_to_capacity = settings.flag("moe-pad-expert-input-to-capacity")};
}

/// A layout alone may have a grid of experts whose number it does not say.
bool may_have_experts(const Settings& settings) {
  if (settings.has("num-experts")) return settings.number("num-experts") > 0;
  return settings.number("expert-model-parallel-size").value_or(1) > 1 ||
         settings.has("expert-tensor-parallel-size");
}

}  // namespace

sim::GptExperts expert_options(const Settings& settings) {
  const sim::Ratio z_loss = coefficient(settings, "moe-z-loss-coeff", {0, 1});
  sim::GptExperts options{
      .num_experts = settings.number("num-experts").value_or(0),
      .moe_ffn_hidden_size =
          settings.number("moe-ffn-hidden-size").value_or(ffn_hidden_size(settings).value_or(0)),
      .routing = {.topk = settings.number("moe-router-topk").value_or(2),
                  .score_function = *named<sim::ScoreFunction>(settings.choice("moe-router-score-function"),
                                                               kScoreFunctions),
                  .pre_softmax = settings.flag("moe-router-pre-softmax"),
                  .scaling_factor = coefficient(settings, "moe-router-topk-scaling-factor", {1, 1}),
                  .num_groups = settings.number("moe-router-num-groups").value_or(0),
                  .group_topk = settings.number("moe-router-group-topk").value_or(0)},
      .expert_bias = settings.flag("moe-router-enable-expert-bias"),
      .expert_bias_update_rate = coefficient(settings, "moe-router-bias-update-rate", {1, 1000}),
      .aux_losses = aux_losses(settings),
      .token_dropping = token_dropping(settings),
      .dispatcher =
          *named<sim::TokenDispatcherType>(settings.choice("moe-token-dispatcher-type"), kDispatchers),
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
