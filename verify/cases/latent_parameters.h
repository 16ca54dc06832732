#pragma once

/// The parameters of multi-head latent attention, and how tensor-parallel ranks cut them.
///
/// Shapes  as multi_latent_attention.h has them; a vector has one row.

#include <string>
#include <vector>

#include "sim/model/multi_latent_attention.h"
#include "verify/cases/case.h"

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

}  // namespace verify
