#include "verify/cases/latent_calls.h"

namespace verify {

using sim::Operation;

void LatentCalls::forward_to_heads(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel && tp > 1)
    calls.push_back({"multi_latent_attention.k_pos_emb", Operation::all_gather, tokens * positions / tp});
  layer_of(width_of_queries()).column_forward(calls);
  layer_of(kv_lora_rank).column_forward(calls);
}

void LatentCalls::backward_from_heads(std::vector<ExpectedCall>& calls) const {
  layer_of(kv_lora_rank).column_backward(calls);
  layer_of(width_of_queries()).column_backward(calls);
  if (tp == 1) return;
  if (sequence_parallel) {
    calls.push_back({"multi_latent_attention.k_pos_emb", Operation::reduce_scatter, tokens * positions / tp});
  } else {
    calls.push_back({"multi_latent_attention.k_pos_emb", Operation::all_reduce, tokens * positions});
  }
}

}  // namespace verify
