#include "verify/requests/model_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

#include "sim/layout/size_rules.h"
#include "verify/megatron_rules/attention_window.h"
#include "verify/requests/expert_options.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/padded_vocabulary.h"
#include "verify/vocabulary/settings.h"

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
  for (const char* size : {"num-layers", "hidden-size", "num-attention-heads", "vocab-size", "seq-length"})
    required_number(settings, size);
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

}  // namespace verify
