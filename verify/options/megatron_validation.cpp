#include "verify/options/megatron_validation.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "verify/options/layer_pattern.h"
#include "verify/options/requests.h"

namespace verify {

namespace {

/// How a configuration breaks a rule: the numbers, and what to try.
struct Break {
  std::string numbers;
  std::string hint;
};
using MaybeBreak = std::optional<Break>;

struct MegatronRule {
  const char* code;
  std::vector<const char*> options;  // the refusal names the first
  MaybeBreak (*broken)(const Settings&);
  const char* rule;
  bool in_legacy = false;
};

// ---- what an option is where it is not given

std::int64_t size_of(const Settings& s, const char* option) { return s.number(option).value_or(1); }

/// The legacy rule book clamps tp to the world.
std::int64_t tp_of(const Settings& s) {
  const std::int64_t tp = size_of(s, "tensor-model-parallel-size");
  return s.choice("rules") == "legacy" ? std::min(tp, s.number("world-size").value_or(tp)) : tp;
}
std::int64_t pp_of(const Settings& s) { return size_of(s, "pipeline-model-parallel-size"); }
std::int64_t cp_of(const Settings& s) { return size_of(s, "context-parallel-size"); }
std::int64_t ep_of(const Settings& s) { return size_of(s, "expert-model-parallel-size"); }
std::int64_t etp_of(const Settings& s) { return s.number("expert-tensor-parallel-size").value_or(tp_of(s)); }
std::int64_t experts_of(const Settings& s) { return s.number("num-experts").value_or(0); }
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
  if (error == std::errc() && end == text.data() + text.size()) return factor;
  sim::refuse({.code = "not_a_number",
               .option = "--moe-expert-capacity-factor",
               .numbers = fmt::format("'{}'", text.substr(0, 100)),
               .rule = "a decimal number",
               .hint = "--moe-expert-capacity-factor 1.0"});
}

MaybeBreak broken_if(bool is_broken, std::string numbers, std::string hint) {
  if (!is_broken) return std::nullopt;
  return Break{std::move(numbers), std::move(hint)};
}

// ---- sizes of the model

/// Whether `size` does not divide into `parts`; the hint is the next size that does.
MaybeBreak undivided(const char* option, std::optional<std::int64_t> size, std::int64_t parts,
                     const char* of) {
  if (!size || *size % parts == 0) return std::nullopt;
  return Break{fmt::format("{} over {} {}", *size, parts, of),
               fmt::format("--{} {}", option, (*size / parts + 1) * parts)};
}

MaybeBreak heads_do_not_divide_hidden(const Settings& s) {
  const auto hidden = s.number("hidden-size"), heads = s.number("num-attention-heads");
  if (!hidden || !heads) return std::nullopt;
  return broken_if(*hidden % *heads != 0, fmt::format("hidden size {}, {} heads", *hidden, *heads),
                   "another number of heads");
}

MaybeBreak groups_do_not_divide_heads(const Settings& s) {
  const auto groups = query_groups(s);
  if (!groups) return std::nullopt;
  const std::int64_t heads = s.number("num-attention-heads").value_or(tp_of(s));
  return broken_if(heads % *groups != 0, fmt::format("{} heads, {} query groups", heads, *groups),
                   "another number of query groups");
}

MaybeBreak heads_do_not_fit_tp(const Settings& s) {
  const auto groups = query_groups(s);
  if (!groups) return std::nullopt;
  const std::int64_t tp = tp_of(s), heads = s.number("num-attention-heads").value_or(tp);
  const bool fits = heads % tp == 0 && (*groups % tp == 0 || tp % *groups == 0);
  return broken_if(!fits, fmt::format("{} heads, {} query groups, tp {}", heads, *groups, tp),
                   "as many query groups as heads, and a tp that divides both");
}

MaybeBreak ffn_does_not_divide(const Settings& s) {
  return undivided("ffn-hidden-size", ffn_hidden_size(s), tp_of(s), "tensor-parallel ranks");
}

MaybeBreak sequence_does_not_divide_tp(const Settings& s) {
  if (!s.flag("sequence-parallel")) return std::nullopt;
  return undivided("seq-length", s.number("seq-length"), tp_of(s) * cp_of(s), "ranks");
}

MaybeBreak sequence_does_not_divide_cp(const Settings& s) {
  if (cp_of(s) == 1) return std::nullopt;
  return undivided("seq-length", s.number("seq-length"), 2 * cp_of(s), "parts");
}

MaybeBreak positions_below_sequence(const Settings& s) {
  const auto positions = s.number("max-position-embeddings"), sequence = s.number("seq-length");
  if (!positions || !sequence) return std::nullopt;
  return broken_if(*positions < *sequence, fmt::format("{} positions for {} tokens", *positions, *sequence),
                   fmt::format("--max-position-embeddings {}", *sequence));
}

MaybeBreak prediction_positions(const Settings& s) {
  const std::int64_t layers = s.number("mtp-num-layers").value_or(0);
  const bool says = s.has("position-embedding-type") || missing_of_model_shape(s).empty();
  const std::string positions = s.choice("position-embedding-type");
  return broken_if(layers > 0 && says && positions == "learned_absolute",
                   fmt::format("{} prediction layers with {}", layers, positions),
                   "--position-embedding-type rope");
}

// ---- the pipeline

MaybeBreak several_chunk_options(const Settings& s) {
  std::vector<std::string> given;
  for (const char* option : {"virtual-pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage",
                             "num-virtual-stages-per-pipeline-rank", "pipeline-model-parallel-layout"}) {
    if (s.has(option)) given.push_back(fmt::format("--{}", option));
  }
  const bool agree = given.size() == 2 && s.has("virtual-pipeline-model-parallel-size") &&
                     s.has("pipeline-model-parallel-layout");  // the layout is held against the number
  return broken_if(given.size() > 1 && !agree, fmt::format("{}", fmt::join(given, ", ")), "one of them");
}

/// Returns the option that gives the first or the last rank layers of its own; null where none does.
const char* uneven_option(const Settings& s) {
  for (const char* option : {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"})
    if (s.has(option)) return option;
  return nullptr;
}

MaybeBreak uneven_stages_of_layers(const Settings& s) {
  const char* uneven = uneven_option(s);
  return broken_if(s.has("num-layers-per-virtual-pipeline-stage") && uneven != nullptr,
                   fmt::format("with --{}", uneven == nullptr ? "" : uneven),
                   "--num-virtual-stages-per-pipeline-rank");
}

/// The layers of a model with what else counts as a layer, where layers for each chunk are given.
std::optional<std::int64_t> places_of_chunks(const Settings& s) {
  const auto layers = s.number("num-layers");
  if (!layers || !s.has("num-layers-per-virtual-pipeline-stage") || uneven_option(s) != nullptr)
    return std::nullopt;
  return *layers + (s.flag("account-for-embedding-in-pipeline-split") ? 1 : 0) +
         (s.flag("account-for-loss-in-pipeline-split") ? 1 : 0);
}

MaybeBreak chunks_of_undivided_stages(const Settings& s) {
  const auto places = places_of_chunks(s);
  if (!places || *places % pp_of(s) != 0) return std::nullopt;
  const std::int64_t of_rank = *places / pp_of(s);
  const std::int64_t of_chunk = *s.number("num-layers-per-virtual-pipeline-stage");
  return broken_if(of_rank % of_chunk != 0,
                   fmt::format("{} layers (or places) of a rank in chunks of {}", of_rank, of_chunk),
                   "a number that divides the layers of a rank");
}

// ---- experts

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

MaybeBreak expert_bias_after_softmax(const Settings& s) {
  return broken_if(
      s.flag("moe-router-enable-expert-bias") && s.choice("moe-router-score-function") == "softmax",
      "the score is a softmax", "--moe-router-score-function sigmoid");
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
                   "--moe-expert-capacity-factor 1.0");
}

bool is_all_to_all(const Settings& s) { return s.choice("moe-token-dispatcher-type") != "allgather"; }

MaybeBreak shared_overlap_without_all_to_all(const Settings& s) {
  return broken_if(s.has("moe-shared-expert-intermediate-size") && s.flag("moe-shared-expert-overlap") &&
                       !is_all_to_all(s),
                   "the token dispatcher is allgather", "--moe-token-dispatcher-type alltoall");
}

MaybeBreak shared_experts_with_bias(const Settings& s) {
  return broken_if(experts_of(s) > 0 && s.has("moe-shared-expert-intermediate-size") && has_bias(s),
                   "linear layers have a bias", "--disable-bias-linear");
}

// ---- the overlap of the experts' all-to-all

bool overlaps(const Settings& s) { return s.flag("overlap-moe-expert-parallel-comm"); }

MaybeBreak overlap_without_chunks(const Settings& s) {
  const bool has_chunks = virtual_pipeline_size(s).has_value() || s.has("pipeline-model-parallel-layout");
  return broken_if(overlaps(s) && pp_of(s) > 1 && !has_chunks,
                   fmt::format("pp is {}, without chunks", pp_of(s)),
                   "--num-virtual-stages-per-pipeline-rank 2");
}

MaybeBreak overlap_without_expert_grid(const Settings& s) {
  const bool has_grid = s.has("world-size");  // the command schedule may have a pipeline alone
  return broken_if(overlaps(s) && has_grid && ep_of(s) == 1, "ep is 1", "--expert-model-parallel-size 2");
}

MaybeBreak overlap_without_all_to_all(const Settings& s) {
  return broken_if(overlaps(s) && !is_all_to_all(s), "the token dispatcher is allgather",
                   "--moe-token-dispatcher-type alltoall");
}

bool recomputes(const Settings& s, const char* granularity) {
  return s.text("recompute-granularity", "") == granularity;
}

MaybeBreak overlap_with_full_recompute(const Settings& s) {
  return broken_if(overlaps(s) && recomputes(s, "full"), "given with --recompute-granularity full",
                   "leave one of them out");
}

MaybeBreak overlap_with_recompute_method(const Settings& s) {
  return broken_if(overlaps(s) && s.has("recompute-method"), "given with --recompute-method",
                   "leave one of them out");
}

MaybeBreak overlap_with_recomputed_layers(const Settings& s) {
  return broken_if(overlaps(s) && s.has("recompute-num-layers"), "given with --recompute-num-layers",
                   "leave one of them out");
}

MaybeBreak overlap_with_shared_overlap(const Settings& s) {
  return broken_if(overlaps(s) && s.flag("moe-shared-expert-overlap"),
                   "given with --moe-shared-expert-overlap", "leave one of them out");
}

MaybeBreak overlap_with_prediction_layers(const Settings& s) {
  const std::int64_t layers = s.number("mtp-num-layers").value_or(0);
  return broken_if(overlaps(s) && layers > 1, fmt::format("{} prediction layers", layers),
                   "--mtp-num-layers 1");
}

// ---- recomputation

MaybeBreak full_without_method(const Settings& s) {
  return broken_if(recomputes(s, "full") && !s.has("recompute-method"), "full, without a method",
                   "--recompute-method uniform");
}

MaybeBreak full_without_layers(const Settings& s) {
  return broken_if(recomputes(s, "full") && !s.has("recompute-num-layers"),
                   "full, without a number of layers", "--recompute-num-layers 1");
}

MaybeBreak selective_with_method(const Settings& s) {
  return broken_if(recomputes(s, "selective") && s.has("recompute-method"), "selective, with a method",
                   "leave --recompute-method out");
}

MaybeBreak selective_with_layers(const Settings& s) {
  return broken_if(recomputes(s, "selective") && s.has("recompute-num-layers"),
                   "selective, with a number of layers", "leave --recompute-num-layers out");
}

const std::vector<MegatronRule>& megatron_rules() {
  constexpr const char* kTp = "tensor-model-parallel-size";
  constexpr const char* kPp = "pipeline-model-parallel-size";
  constexpr const char* kCp = "context-parallel-size";
  constexpr const char* kEp = "expert-model-parallel-size";
  constexpr const char* kEtp = "expert-tensor-parallel-size";
  constexpr const char* kExperts = "num-experts";
  constexpr const char* kOverlap = "overlap-moe-expert-parallel-comm";
  constexpr const char* kLayersOfChunk = "num-layers-per-virtual-pipeline-stage";
  constexpr const char* kDispatcher = "moe-token-dispatcher-type";
  constexpr const char* kRecompute = "recompute-granularity";
  constexpr bool kInLegacy = true;
  static const std::vector<MegatronRule> rules = {
      {"heads_div",
       {"num-attention-heads", "hidden-size"},
       heads_do_not_divide_hidden,
       "the hidden size must be a multiple of the number of heads",
       kInLegacy},
      {"groups_div",
       {"num-query-groups", "num-attention-heads"},
       groups_do_not_divide_heads,
       "the number of heads must be a multiple of the number of query groups",
       kInLegacy},
      {"attention_heads",
       {"num-attention-heads", "num-query-groups", kTp},
       heads_do_not_fit_tp,
       "heads divide by tp; query groups divide by tp, or tp by them",
       kInLegacy},
      {"ffn_tp_div",
       {"ffn-hidden-size", "hidden-size", "swiglu", kTp},
       ffn_does_not_divide,
       "every tensor-parallel rank has as many columns of the MLP",
       kInLegacy},
      {"sequence_tp_div",
       {"seq-length", "sequence-parallel", kTp, kCp},
       sequence_does_not_divide_tp,
       "with sequence parallelism every rank has as many tokens of a sequence",
       kInLegacy},
      {"sequence_cp_div",
       {"seq-length", kCp},
       sequence_does_not_divide_cp,
       "every context-parallel rank has two equal parts of a sequence",
       kInLegacy},
      {"max_positions_below_seq",
       {"max-position-embeddings", "seq-length"},
       positions_below_sequence,
       "a sequence is no longer than there are positions"},
      {"mtp_position_embedding",
       {"mtp-num-layers", "position-embedding-type"},
       prediction_positions,
       "layers of multi-token prediction have rotary positions, or none"},

      {"vpp_more_than_one_flag",
       {kLayersOfChunk, "num-virtual-stages-per-pipeline-rank"},
       several_chunk_options,
       "one option says how many chunks a rank holds"},
      {"uneven_with_layers_per_vp",
       {kLayersOfChunk},
       uneven_stages_of_layers,
       "layers of a chunk are not given where the first or the last rank has layers of its own"},
      {"layers_per_stage_vp",
       {kLayersOfChunk, "num-layers", kPp},
       chunks_of_undivided_stages,
       "every chunk of a pipeline rank has as many layers"},

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
      {"expert_bias_score",
       {"moe-router-enable-expert-bias"},
       expert_bias_after_softmax,
       "a bias on experts needs scores by sigmoid or sqrtsoftplus"},
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
      {"shared_expert_bias",
       {"moe-shared-expert-intermediate-size", "disable-bias-linear"},
       shared_experts_with_bias,
       "shared experts have no bias"},

      {"overlap_needs_vpp",
       {kOverlap, kPp},
       overlap_without_chunks,
       "with pp above 1 the overlap needs an interleaved schedule"},
      {"ep_overlap_needs_ep",
       {kOverlap, kEp},
       overlap_without_expert_grid,
       "the overlap needs expert parallelism"},
      {"ep_overlap_dispatcher",
       {kOverlap, kDispatcher},
       overlap_without_all_to_all,
       "the overlap goes with alltoall or flex"},
      {"ep_overlap_full_recompute",
       {kOverlap, kRecompute},
       overlap_with_full_recompute,
       "the overlap goes without full recomputation"},
      {"ep_overlap_recompute_method",
       {kOverlap, "recompute-method"},
       overlap_with_recompute_method,
       "the overlap goes without a method of recomputation"},
      {"ep_overlap_recompute_layers",
       {kOverlap, "recompute-num-layers"},
       overlap_with_recomputed_layers,
       "the overlap goes without a number of recomputed layers"},
      {"ep_overlap_shared_overlap",
       {kOverlap, "moe-shared-expert-overlap"},
       overlap_with_shared_overlap,
       "one of the two overlaps"},
      {"ep_overlap_mtp_layers",
       {kOverlap, "mtp-num-layers"},
       overlap_with_prediction_layers,
       "the overlap goes with at most one layer of multi-token prediction"},

      {"full_recompute_needs_method",
       {"recompute-method", kRecompute},
       full_without_method,
       "full recomputation has a method, block or uniform"},
      {"full_recompute_needs_layers",
       {"recompute-num-layers", kRecompute},
       full_without_layers,
       "full recomputation has a number of layers"},
      {"selective_with_method",
       {"recompute-method", kRecompute},
       selective_with_method,
       "selective recomputation has no method"},
      {"selective_with_num_layers",
       {"recompute-num-layers", kRecompute},
       selective_with_layers,
       "selective recomputation has no number of layers"},
  };
  return rules;
}

bool is_read_by(const MegatronRule& rule, Reader reader) {
  return std::all_of(rule.options.begin(), rule.options.end(),
                     [&](const char* option) { return overlap(option_named(option).readers, reader); });
}

}  // namespace

std::vector<std::string> megatron_rule_codes() {
  std::vector<std::string> codes;
  for (const MegatronRule& rule : megatron_rules()) codes.emplace_back(rule.code);
  return codes;
}

bool has_experts(const Settings& settings) {
  return settings.has("num-experts") ? experts_of(settings) > 0 : ep_of(settings) > 1;
}

void keep_megatron_refusals(const Settings& settings, Reader reader, Refusals& refusals) {
  const bool is_legacy = settings.choice("rules") == "legacy";
  for (const MegatronRule& rule : megatron_rules()) {
    if (!is_read_by(rule, reader) || (is_legacy && !rule.in_legacy)) continue;
    refusals.keep([&] {
      const MaybeBreak found = rule.broken(settings);
      if (!found) return;
      sim::refuse({.code = rule.code,
                   .option = fmt::format("--{}", rule.options.front()),
                   .numbers = found->numbers,
                   .rule = rule.rule,
                   .hint = found->hint});
    });
  }
}

}  // namespace verify
