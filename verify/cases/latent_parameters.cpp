#include "verify/cases/latent_parameters.h"

namespace verify {

std::vector<LatentParameter> latent_parameters(const LatentLayer& layer) {
  const sim::LatentSizes& sizes = layer.sizes;
  std::vector<LatentParameter> all;
  const auto add_norm = [&](const std::string& name, std::int64_t size) {
    for (const char* what : {".weight", ".bias"}) {
      if (!layer.has_norms || (what[1] == 'b' && !layer.is_layer_norm)) continue;
      all.push_back({.name = name + what, .rows = 1, .columns = size, .is_norm = true, .is_vector = true});
    }
  };
  const bool has_query_latent = sizes.q_lora_rank > 0;
  if (has_query_latent) all.push_back({"linear_q_down_proj.weight", sizes.q_lora_rank, layer.hidden});
  if (has_query_latent) add_norm("q_layernorm", sizes.q_lora_rank);
  all.push_back({has_query_latent ? "linear_q_up_proj.weight" : "linear_q_proj.weight",
                 layer.heads * sizes.query_channels(), has_query_latent ? sizes.q_lora_rank : layer.hidden,
                 Placement::rows});
  all.push_back({"linear_kv_down_proj.weight", sizes.kv_lora_rank + sizes.qk_pos_emb_head_dim, layer.hidden});
  add_norm("kv_layernorm", sizes.kv_lora_rank);
  all.push_back({"linear_kv_up_proj.weight", layer.heads * (sizes.qk_head_dim + sizes.v_head_dim),
                 sizes.kv_lora_rank, Placement::rows});
  all.push_back({"linear_proj.weight", layer.hidden, layer.heads * sizes.v_head_dim, Placement::columns});
  if (layer.has_bias)
    all.push_back({.name = "linear_proj.bias", .rows = 1, .columns = layer.hidden, .is_vector = true});
  return all;
}

}  // namespace verify
