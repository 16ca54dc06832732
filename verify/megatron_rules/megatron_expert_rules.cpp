#include <charconv>
#include <cmath>

#include "sim/base/error.h"
#include "verify/megatron_rules/megatron_rule.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify::megatron {

namespace {

constexpr const char* kEtp = "expert-tensor-parallel-size";
constexpr const char* kExperts = "num-experts";

std::int64_t topk_of(const Settings& s) { return s.number("moe-router-topk").value_or(2); }
bool has_bias(const Settings& s) { return !s.flag("disable-bias-linear"); }

std::vector<std::string> balancing_of(const Settings& s) {
  return s.has("moe-router-load-balancing-type") ? s.texts("moe-router-load-balancing-type")
                                                 : std::vector<std::string>{"aux_loss"};
}

std::optional<LayerPattern> layers_with_experts(const Settings& s) {
  if (!s.has("moe-layer-freq")) return std::nullopt;
  return parse_layer_pattern(s.text("moe-layer-freq", ""));
}

double capacity_of(const Settings& s) {
  const std::string text = s.text("moe-expert-capacity-factor", "");
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (is_whole && std::isfinite(factor) && factor != 0) return factor;
  sim::refuse({.code = "not_a_number",
               .option = "--moe-expert-capacity-factor",
               .numbers = fmt::format("'{}'", text.substr(0, 100)),
               .rule = "the value is a decimal number, above 0 for a capacity and below 0 for none",
               .hint = "--moe-expert-capacity-factor 1.0"});
}

MaybeBreak experts_missing(const Settings& s) {
  const bool is_dense = experts_of(s) == 0 && (s.has("num-experts") || missing_of_model_shape(s).empty());
  return broken_if(is_dense && ep_of(s) > 1, fmt::format("ep is {}, and the model has no experts", ep_of(s)),
                   "--num-experts, or --expert-model-parallel-size 1");
}

MaybeBreak experts_do_not_divide(const Settings& s) {
  return broken_if(experts_of(s) % ep_of(s) != 0,
                   fmt::format("{} experts over ep {}", experts_of(s), ep_of(s)),
                   fmt::format("--num-experts {}", (experts_of(s) / ep_of(s) + 1) * ep_of(s)));
}

MaybeBreak experts_without_sequence_parallel(const Settings& s) {
  const bool trains = !s.flag("forward-only");
  return broken_if(has_experts(s) && trains && tp_of(s) > 1 && !s.flag("sequence-parallel"),
                   fmt::format("tp is {}, with experts and without sequence parallelism", tp_of(s)),
                   "--sequence-parallel");
}

MaybeBreak expert_bias_with_etp(const Settings& s) {
  return broken_if(experts_of(s) > 0 && has_bias(s) && etp_of(s) != 1,
                   fmt::format("etp is {}{}, and linear layers have a bias", etp_of(s),
                               s.has("expert-tensor-parallel-size") ? "" : " (tp unless given)"),
                   "--disable-bias-linear, or --expert-tensor-parallel-size 1");
}

MaybeBreak expert_ffn_without_experts(const Settings& s) {
  if (experts_of(s) > 0 || !s.has("moe-ffn-hidden-size") ||
      (!s.has("num-experts") && !missing_of_model_shape(s).empty()))
    return std::nullopt;
  const auto layers = layers_with_experts(s);
  return broken_if(!layers || !leaves_dense_layers(*layers), "the model has no experts",
                   "--num-experts, or leave it out");
}

MaybeBreak expert_ffn_does_not_divide(const Settings& s) {
  if (experts_of(s) == 0) return std::nullopt;
  const auto given = s.number("moe-ffn-hidden-size");
  return undivided("moe-ffn-hidden-size", given ? given : ffn_hidden_size(s), etp_of(s),
                   "expert-tensor-parallel ranks");
}

MaybeBreak layer_list_of_other_length(const Settings& s) {
  const auto layers = layers_with_experts(s);
  const auto count = s.number("num-layers");
  if (!layers || layers->entries.empty() || !count || experts_of(s) == 0) return std::nullopt;
  return broken_if(std::ssize(layers->entries) != *count,
                   fmt::format("{} entries for {} layers", layers->entries.size(), *count),
                   fmt::format("a list of {} entries", *count));
}

MaybeBreak layer_list_of_other_entries(const Settings& s) {
  const auto layers = layers_with_experts(s);
  if (!layers || experts_of(s) == 0) return std::nullopt;
  const auto wrong = std::find_if(layers->entries.begin(), layers->entries.end(),
                                  [](std::int64_t entry) { return entry != 0 && entry != 1; });
  if (wrong == layers->entries.end()) return std::nullopt;
  return Break{fmt::format("an entry is {}", *wrong), "0 for a dense layer, 1 for one with experts"};
}

MaybeBreak one_expert_after_softmax(const Settings& s) {
  const bool is_free = s.flag("moe-router-pre-softmax") ||
                       s.choice("moe-router-score-function") != "softmax" ||
                       balancing_of(s) == std::vector<std::string>{"sinkhorn"};
  return broken_if(topk_of(s) == 1 && !is_free, "top-k is 1, and softmax comes after the choice",
                   "--moe-router-pre-softmax");
}

MaybeBreak more_choices_than_experts(const Settings& s) {
  return broken_if(experts_of(s) > 0 && topk_of(s) > experts_of(s),
                   fmt::format("{} of {} experts", topk_of(s), experts_of(s)),
                   fmt::format("--moe-router-topk {}", experts_of(s)));
}

MaybeBreak group_choice_without_experts(const Settings& s) {
  return broken_if(s.has("moe-router-group-topk") && experts_of(s) == 0, "the model has no experts",
                   "--num-experts, or leave it out");
}

MaybeBreak group_choice_without_groups(const Settings& s) {
  return broken_if(s.has("moe-router-group-topk") && !s.has("moe-router-num-groups"), "no groups are given",
                   "--moe-router-num-groups");
}

MaybeBreak experts_do_not_fill_groups(const Settings& s) {
  const auto groups = s.number("moe-router-num-groups");
  if (!groups || !s.has("moe-router-group-topk")) return std::nullopt;
  return broken_if(experts_of(s) % *groups != 0,
                   fmt::format("{} experts in {} groups", experts_of(s), *groups), "groups of equal size");
}

MaybeBreak more_choices_than_groups(const Settings& s) {
  const auto groups = s.number("moe-router-num-groups"), choices = s.number("moe-router-group-topk");
  if (!groups || !choices) return std::nullopt;
  return broken_if(*choices > *groups, fmt::format("{} of {} groups", *choices, *groups),
                   fmt::format("--moe-router-group-topk {}", *groups));
}

MaybeBreak more_choices_than_experts_of_groups(const Settings& s) {
  const auto groups = s.number("moe-router-num-groups"), choices = s.number("moe-router-group-topk");
  if (!groups || !choices || experts_of(s) % *groups != 0 || *choices > *groups) return std::nullopt;
  const std::int64_t within = experts_of(s) / *groups * *choices;
  return broken_if(topk_of(s) > within && topk_of(s) <= experts_of(s),
                   fmt::format("{} experts of {} groups with {} experts each", topk_of(s), *choices,
                               experts_of(s) / *groups),
                   fmt::format("--moe-router-topk {}", within));
}

MaybeBreak expert_bias_after_softmax(const Settings& s) {
  return broken_if(
      s.flag("moe-router-enable-expert-bias") && s.choice("moe-router-score-function") == "softmax",
      "the score is a softmax",
      of_experts(s, "--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias"));
}

/// Where no coefficient is given, no loss counts. A run of --from must have them (run_expert_rules.cpp).
MaybeBreak coefficients_do_not_match(const Settings& s) {
  const auto types = std::ssize(balancing_of(s)), given = std::ssize(s.texts("moe-aux-loss-coeff"));
  return broken_if(types > 1 && given > 0 && types != given,
                   fmt::format("{} coefficients for {} types", given, types),
                   "as many coefficients as types");
}

MaybeBreak capacity_with_other_balancing(const Settings& s) {
  if (!s.has("moe-expert-capacity-factor")) return std::nullopt;
  capacity_of(s);  // refuses what is no number
  const std::vector<std::string> fit = {"aux_loss", "seq_aux_loss", "global_aux_loss", "none"};
  for (const std::string& type : balancing_of(s)) {
    if (std::find(fit.begin(), fit.end(), type) == fit.end())
      return Break{fmt::format("given with the balancing type '{}'", type), "leave it out"};
  }
  return std::nullopt;
}

MaybeBreak padding_without_capacity(const Settings& s) {
  const bool has_capacity = s.has("moe-expert-capacity-factor") && capacity_of(s) >= 0;
  return broken_if(s.flag("moe-pad-expert-input-to-capacity") && !has_capacity, "no capacity factor is given",
                   of_experts(s, "--moe-expert-capacity-factor 1.0", "--moe-pad-expert-input-to-capacity"));
}

MaybeBreak shared_overlap_without_all_to_all(const Settings& s) {
  return broken_if(s.has("moe-shared-expert-intermediate-size") && s.flag("moe-shared-expert-overlap") &&
                       !is_all_to_all(s),
                   "the token dispatcher is allgather", "--moe-token-dispatcher-type alltoall");
}

MaybeBreak shared_experts_do_not_divide(const Settings& s) {
  if (experts_of(s) == 0) return std::nullopt;
  return undivided("moe-shared-expert-intermediate-size", s.number("moe-shared-expert-intermediate-size"),
                   tp_of(s), "tensor-parallel ranks");
}

MaybeBreak shared_experts_with_bias(const Settings& s) {
  return broken_if(experts_of(s) > 0 && s.has("moe-shared-expert-intermediate-size") && has_bias(s),
                   "linear layers have a bias", "--disable-bias-linear");
}

}  // namespace

/// The rules about experts, their router and their dispatcher.
std::vector<Rule> expert_rules() {
  return {
      {"ep_without_experts", {kEp, kExperts}, experts_missing, "an expert grid needs experts"},
      {"experts_ep",
       {kExperts, kEp},
       experts_do_not_divide,
       "every expert-parallel rank has as many experts"},
      {"moe_tp_needs_sp",
       {"sequence-parallel", kTp, kEp, kExperts},
       experts_without_sequence_parallel,
       "a model with experts trains with tp above 1 under sequence parallelism alone: Megatron refuses its "
       "first forward pass"},
      {"moe_bias_etp",
       {"disable-bias-linear", kExperts, kEtp, kTp},
       expert_bias_with_etp,
       "experts with a bias are not cut over tensor-parallel ranks"},
      {"moe_ffn_without_experts",
       {"moe-ffn-hidden-size", kExperts},
       expert_ffn_without_experts,
       "the size of an expert needs experts"},
      {"moe_ffn_etp_div",
       {"moe-ffn-hidden-size", kExperts, kEtp},
       expert_ffn_does_not_divide,
       "every expert-tensor-parallel rank has as many columns of an expert"},
      {"moe_freq_length",
       {"moe-layer-freq", "num-layers"},
       layer_list_of_other_length,
       "the list of layers with experts has an entry for each layer"},
      {"moe_freq_entry",
       {"moe-layer-freq"},
       layer_list_of_other_entries,
       "the list of layers with experts has entries 0 and 1"},
      {"topk1_needs_pre_softmax",
       {"moe-router-topk"},
       one_expert_after_softmax,
       "a softmax over the one expert that was chosen is 1: it must come before the choice"},
      {"topk_above_experts",
       {"moe-router-topk", kExperts},
       more_choices_than_experts,
       "a token goes to no more experts than there are"},
      {"group_topk_without_experts",
       {"moe-router-group-topk", kExperts},
       group_choice_without_experts,
       "a choice among groups of experts needs experts"},
      {"group_topk_needs_groups",
       {"moe-router-group-topk"},
       group_choice_without_groups,
       "a choice among groups of experts needs their number"},
      {"experts_groups",
       {"moe-router-num-groups", kExperts},
       experts_do_not_fill_groups,
       "every group has as many experts"},
      {"group_topk_above_groups",
       {"moe-router-group-topk"},
       more_choices_than_groups,
       "no more groups are chosen than there are"},
      {"topk_above_group_experts",
       {"moe-router-topk", "moe-router-num-groups", "moe-router-group-topk", kExperts},
       more_choices_than_experts_of_groups,
       "the experts of a token are among those of its groups"},
      {"expert_bias_score",
       {"moe-router-enable-expert-bias"},
       expert_bias_after_softmax,
       "a bias on experts needs scores by sigmoid or sqrtsoftplus"},
      {"aux_loss_list_length",
       {"moe-aux-loss-coeff", "moe-router-load-balancing-type"},
       coefficients_do_not_match,
       "several ways to balance the load have a coefficient each"},
      {"capacity_balancing_type",
       {"moe-expert-capacity-factor"},
       capacity_with_other_balancing,
       "a capacity goes with balancing by aux_loss, seq_aux_loss, global_aux_loss or none"},
      {"pad_without_capacity",
       {"moe-pad-expert-input-to-capacity"},
       padding_without_capacity,
       "padding to a capacity needs a capacity"},
      {"shared_overlap_dispatcher",
       {"moe-shared-expert-overlap", kDispatcher},
       shared_overlap_without_all_to_all,
       "shared experts overlap with alltoall or flex alone"},
      {"moe_shared_tp_div",
       {"moe-shared-expert-intermediate-size", kTp, kExperts},
       shared_experts_do_not_divide,
       "every tensor-parallel rank has as many columns of the shared experts"},
      {"shared_expert_bias",
       {"moe-shared-expert-intermediate-size", "disable-bias-linear"},
       shared_experts_with_bias,
       "shared experts have no bias"},
  };
}

}  // namespace verify::megatron
