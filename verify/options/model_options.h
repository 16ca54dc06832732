#pragma once

/// What the user said of the model and its batch. The shape is there when its five sizes are; the flags have
/// Megatron's defaults.

#include <cstdint>
#include <optional>

#include "verify/options/model_shape.h"

namespace verify {

class Settings;

struct ModelOptions {
  std::optional<ModelShape> shape;
  std::optional<std::int64_t> num_attention_heads;
  std::optional<std::int64_t> num_query_groups;
  std::optional<std::int64_t> vocab_size;  // V
  std::int64_t mtp_num_layers = 0;         // multi-token-prediction layers
  bool sequence_parallel = false;
  bool gated_mlp = false;
  bool linear_bias = true;
  bool untied_output = false;
  bool rms_norm = false;
  bool rotary = false;  // else learned positions
};

/// Sequences of a step and of a microbatch.
struct BatchOptions {
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> num_microbatches;  // of each replica
};

ModelOptions model_options(const Settings& settings);
BatchOptions batch_options(const Settings& settings);

}  // namespace verify
