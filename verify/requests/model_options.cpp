#include "verify/requests/model_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

#include "verify/requests/requests.h"
#include "verify/vocabulary/settings.h"

namespace verify {

ModelOptions model_options(const Settings& settings) {
  ModelOptions model{
      .num_attention_heads = settings.number("num-attention-heads"),
      .num_query_groups = query_groups(settings),
      .cp_comm_types = cp_comm_types(settings),
      .hierarchical_context_parallel_sizes = settings.numbers("hierarchical-context-parallel-sizes"),
      .experts = expert_options(settings),
      .vocab_size = settings.number("vocab-size"),
      .mtp_num_layers = settings.number("mtp-num-layers").value_or(0),
      .sequence_parallel = settings.flag("sequence-parallel"),
      .gated_mlp = settings.flag("swiglu"),
      .linear_bias = !settings.flag("disable-bias-linear"),
      .add_qkv_bias = settings.flag("add-qkv-bias"),
      .qk_layernorm = settings.flag("qk-layernorm"),
      .window = attention_window(settings),
      .latent = latent_attention(settings),
      .untied_output = settings.flag("untie-embeddings-and-output-weights"),
      .rms_norm = settings.choice("normalization") == "RMSNorm",
      .rotary = settings.choice("position-embedding-type") == "rope"};
  const std::vector<std::string> missing = missing_of_model_shape(settings);
  if (missing.empty()) model.shape = model_shape(settings);
  const bool is_begun = settings.has("hidden-size") || settings.has("num-attention-heads") ||
                        settings.has("vocab-size") || settings.has("seq-length");
  if (!missing.empty() && is_begun)
    model.no_shape =
        fmt::format("--{} {} not given", fmt::join(missing, ", --"), missing.size() == 1 ? "is" : "are");
  return model;
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
