#pragma once

/// The buffers of parameters and gradients of a stage at full size, in closed form, and what a rank holds
/// between steps: they and the states of its part of the optimizer.
///
/// Shapes  elements, and bytes: a parameter has those of its dtype, a gradient those of its sums. Adam has
///         two moments of a sum's dtype for each element that a rank owns, and beside bf16 a main parameter.
/// Exact   the parameters are those of the check "memory" without the biases of routers, and the buckets
///         those of the reference. Experts have buffers of their own where other ranks share them than those
///         that share dense parameters. `full_size_step.h` holds all of it against a step.

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/reference/gradient_buckets.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Whether experts have buffers of their own, which other ranks share than those of dense parameters.
bool has_expert_buffers(const ScenarioRequest& request);

/// Returns the parameters that a rank of a stage holds, without the biases of routers.
std::vector<HeldParameter> parameters_at_full_size(const ScenarioRequest& request, int pipeline_rank);

/// One buffer of a stage.
struct GradientBuffer {
  int chunk = 0;
  std::vector<HeldParameter> held;
  std::optional<std::int64_t> bucket_size;  // elements that close a bucket
  std::vector<reference::GradientBucket> buckets;
  const char* group = "dp-cp";  // that reduces the gradients
  int replicas = 1;             // ranks of this group
};
/// Returns the buffers of a stage that have parameters: of each chunk the dense one, and the one of experts.
std::vector<GradientBuffer> gradient_buffers(const ScenarioRequest& request, int pipeline_rank);

struct StaticBytes {
  std::int64_t parameters = 0, gradients = 0;
  std::int64_t optimizer = 0;  // on the rank of the stage that owns most elements
  bool operator==(const StaticBytes&) const = default;
};
StaticBytes static_bytes(const ScenarioRequest& request, int pipeline_rank);

}  // namespace verify
