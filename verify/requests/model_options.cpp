#include "verify/requests/model_options.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <string_view>

#include "sim/layout/size_rules.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

/// The base of rotary positions. Nothing that is counted depends on it.
constexpr std::int64_t kRotaryBase = 10'000;

std::optional<sim::LatentSizes> latent_attention(const Settings& settings) {
  if (!settings.flag("multi-latent-attention")) return std::nullopt;
  sim::LatentSizes sizes;
  const auto read = [&](const char* name, std::int64_t& size) {
    size = settings.number(name).value_or(size);
  };
  read("q-lora-rank", sizes.q_lora_rank);
  read("kv-lora-rank", sizes.kv_lora_rank);
  read("qk-head-dim", sizes.qk_head_dim);
  read("qk-pos-emb-head-dim", sizes.qk_pos_emb_head_dim);
  read("v-head-dim", sizes.v_head_dim);
  return sizes;
}

/// Reads all that is given of a model.
sim::GptConfig model_config(const Settings& settings) {
  const auto size = [&](const char* name) { return settings.number(name).value_or(0); };
  const bool is_rotary = settings.choice("position-embedding-type") == "rope";
  const bool is_gated = settings.flag("swiglu");
  return {.num_layers = size("num-layers"),
          .hidden_size = size("hidden-size"),
          .ffn_hidden_size = ffn_hidden_size(settings).value_or(0),
          .num_attention_heads = size("num-attention-heads"),
          .num_query_groups = query_groups(settings).value_or(0),
          .kv_channels = size("kv-channels"),
          .seq_length = size("seq-length"),
          .cp_comm_types = cp_comm_types(settings),
          .vocab_size = size("vocab-size"),
          .make_vocab_size_divisible_by =
              settings.number("make-vocab-size-divisible-by").value_or(kVocabularyDivisor),
          .rotary_base = is_rotary ? kRotaryBase : 0,
          .max_position_embeddings = size("max-position-embeddings"),
          .normalization =
              settings.choice("normalization") == "RMSNorm" ? sim::Norm::rms_norm : sim::Norm::layer_norm,
          .activation = is_gated ? sim::Activation::silu : sim::Activation::gelu_tanh,
          .gated = is_gated,
          .bias = !settings.flag("disable-bias-linear"),
          .add_qkv_bias = settings.flag("add-qkv-bias"),
          .qk_layernorm = settings.flag("qk-layernorm"),
          .window = attention_window(settings),
          .latent = latent_attention(settings),
          .untie_embeddings_and_output_weights = settings.flag("untie-embeddings-and-output-weights"),
          .sequence_parallel = settings.flag("sequence-parallel"),
          .experts = expert_options(settings),
          .mtp_num_layers = size("mtp-num-layers")};
}

/// Refuses a divisor that makes the multiple of all ranks larger than any vocabulary.
void require_vocabulary_divisor(const Settings& settings) {
  const auto divisor = settings.number("make-vocab-size-divisible-by");
  const std::int64_t tp = settings.number("tensor-model-parallel-size").value_or(1);
  if (divisor)
    sim::require_size("--make-vocab-size-divisible-by times tp", sim::capped_product({*divisor, tp}));
}

}  // namespace

ModelOptions model_options(const Settings& settings) {
  const std::vector<std::string> missing = missing_of_model_shape(settings);
  ModelOptions model{
      .config = model_config(settings),
      .has_shape = missing.empty(),
      .no_shape = "",
      .hierarchical_context_parallel_sizes = settings.numbers("hierarchical-context-parallel-sizes"),
      .load_balancing_types = settings.texts("moe-router-load-balancing-type")};
  if (model.has_shape) require_vocabulary_divisor(settings);
  const bool is_begun = settings.has("hidden-size") || settings.has("num-attention-heads") ||
                        settings.has("vocab-size") || settings.has("seq-length");
  if (!missing.empty() && is_begun)
    model.no_shape =
        fmt::format("--{} {} not given", fmt::join(missing, ", --"), missing.size() == 1 ? "is" : "are");
  return model;
}

sim::GptConfig model_shape(const Settings& settings) {
  for (const std::string& missing : missing_of_model_shape(settings)) required_number(settings, missing);
  require_vocabulary_divisor(settings);
  return model_config(settings);
}

BatchOptions batch_options(const Settings& settings) {
  return {.micro_batch_size = settings.number("micro-batch-size").value_or(1),
          .global_batch_size = settings.number("global-batch-size"),
          .num_microbatches = settings.number("num-microbatches")};
}

std::vector<sim::CpCommType> cp_comm_types(const Settings& settings) {
  std::vector<sim::CpCommType> types;
  for (const std::string& name : settings.texts("cp-comm-type")) types.push_back(sim::cp_comm_type(name));
  return types;
}

std::optional<sim::CpCommType> kind_of_all_layers(const std::vector<sim::CpCommType>& types) {
  if (types.empty()) return sim::CpCommType::p2p;
  const bool is_one = std::ranges::adjacent_find(types, std::not_equal_to()) == types.end();
  return is_one ? std::optional(types.front()) : std::nullopt;
}

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
