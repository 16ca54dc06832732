#include "verify/cases/latent_layer.h"

namespace verify {

using sim::Operation;

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

void LatentCalls::forward_to_heads(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel && tp > 1)
    calls.push_back({"multi_latent_attention.k_pos_emb", Operation::all_gather, shared_keys() / tp});
  layer_of(width_of_queries()).column_forward(calls);
  layer_of(sizes.kv_lora_rank).column_forward(calls);
}

void LatentCalls::backward_from_heads(std::vector<ExpectedCall>& calls) const {
  layer_of(sizes.kv_lora_rank).column_backward(calls);
  layer_of(width_of_queries()).column_backward(calls);
  if (tp == 1) return;
  calls.push_back({"multi_latent_attention.k_pos_emb",
                   sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce,
                   sequence_parallel ? shared_keys() / tp : shared_keys()});
}

}  // namespace verify
