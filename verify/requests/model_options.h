#pragma once

/// The options about the model, its experts and its batch. A model has a shape when its five required sizes
/// are given (layers, hidden size, heads, vocabulary, sequence length). Flags have Megatron's defaults.
///
/// Shapes  What a layout, a batch or a run decides is not in the model's description: its dtype, its
///         microbatch, the ranks of a sequence, the padded vocabulary, and recomputation.
/// Exact   Coefficients are the decimal numbers that are given, as ratios. A model without experts has
///         num_experts 0, and none of the other values of experts has an effect. Of the losses that balance
///         experts, those are read that GptExperts has.
/// Errors  not_a_number: a coefficient that is no decimal number of at least 0, or one whose ratio needs more
///         than 31 bits; layer_pattern: a pattern of layers that cannot be read;
///         expert_options_without_experts: an option without effect.
/// Source  Megatron-LM, core/transformer/transformer_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/context/cp_comm_type.h"
#include "sim/model/gpt_config.h"

namespace verify {

class Settings;

struct ModelOptions {
  sim::GptConfig config;   // of the scenario's model, at its full size; 0: a size that is not given
  bool has_shape = false;  // whether all sizes are known that parameters and memory need
  std::string no_shape;    // names the missing sizes if only some of them are given; else ""
  std::vector<std::int64_t> hierarchical_context_parallel_sizes;
  std::vector<std::string> load_balancing_types;  // also those that GptConfig does not have
};

/// Sizes in sequences, and the number of microbatches.
struct BatchOptions {
  std::int64_t micro_batch_size = 1;              // sequences of a microbatch
  std::optional<std::int64_t> global_batch_size;  // sequences of a step
  std::optional<std::int64_t> num_microbatches;   // microbatches of each replica in a step
};

ModelOptions model_options(const Settings& settings);

/// Reads the description of a model whose shape is known, and refuses a missing size. The default of F is 4
/// H; with a gated MLP it is 8/3 H, rounded down to a multiple of 64.
sim::GptConfig model_shape(const Settings& settings);

BatchOptions batch_options(const Settings& settings);

/// Returns how attention communicates over context-parallel ranks: one kind is that of all layers, several
/// are those of the layers, one after the other, and none is p2p, as in Megatron.
std::vector<sim::CpCommType> cp_comm_types(const Settings& settings);
/// Returns the kind that all layers have, if there is one.
std::optional<sim::CpCommType> kind_of_all_layers(const std::vector<sim::CpCommType>& types);

sim::GptExperts expert_options(const Settings& settings);

/// Refuses options about experts in a model without experts. Megatron ignores them, as a run of --from may,
/// too.
void require_effective_expert_options(const Settings& settings);

}  // namespace verify
