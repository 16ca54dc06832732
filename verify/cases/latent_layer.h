#pragma once

/// Multi-head latent attention, as the references of cases know it: its parameters, how tensor-parallel ranks
/// cut them, and its calls over tp in closed form, before and behind its heads. Each up-projection is a
/// column-parallel layer of a latent state, and the shared part of keys is gathered and reduced by itself.
///
/// Shapes  as multi_latent_attention.h has them; a vector has one row.
/// Calls   each function of LatentCalls appends the calls of one pass to a list; a group of one rank makes
///         none.

#include <string>
#include <vector>

#include "sim/model/multi_latent_attention.h"
#include "verify/cases/case.h"
#include "verify/cases/token_calls.h"

namespace verify {

struct LatentLayer {
  sim::LatentSizes sizes = {};
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  bool has_norms = false;  // of latent states
  bool is_layer_norm = false;
  bool has_bias = false;  // of the last linear layer
};

/// A replicated one has, with sequence parallelism, the gradient of the rank's own tokens only.
struct LatentParameter {
  std::string name;
  std::int64_t rows;
  std::int64_t columns;
  Placement placement = Placement::replicated;  // over the ranks of a tensor-parallel group
  bool is_norm = false;
  bool is_vector = false;  // a norm's parameter, or a bias
};

/// Returns those of queries, of keys and values, and of the output.
std::vector<LatentParameter> latent_parameters(const LatentLayer& layer);

struct LatentCalls {
  std::int64_t tokens = 0;  // T
  std::int64_t hidden = 0;  // H
  sim::LatentSizes sizes = {};
  int tp = 1;
  bool sequence_parallel = false;

  void forward_to_heads(std::vector<ExpectedCall>& calls) const;
  void backward_from_heads(std::vector<ExpectedCall>& calls) const;
  /// The layer that the output of the heads goes through.
  TokenCalls of_output() const { return layer_of(hidden); }

 private:
  TokenCalls layer_of(std::int64_t width) const {
    return {.all = tokens * width, .tp = tp, .sequence_parallel = sequence_parallel};
  }
  std::int64_t shared_keys() const { return tokens * sizes.qk_pos_emb_head_dim; }
  /// Without a latent state of queries, they come from the hidden state itself.
  std::int64_t width_of_queries() const { return sizes.q_lora_rank > 0 ? sizes.q_lora_rank : hidden; }
};

}  // namespace verify
