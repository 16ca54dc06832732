#include "verify/requests/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/requests/context_options.h"
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

std::vector<sim::Warning> query_group_warnings(const Settings& settings, const char* user) {
  if (!settings.has("num-query-groups") || settings.flag("group-query-attention")) return {};
  return {{"query_groups_ignored",
           fmt::format("Megatron ignores --num-query-groups without --group-query-attention, but this {} "
                       "uses it",
                       user)}};
}

}  // namespace verify
