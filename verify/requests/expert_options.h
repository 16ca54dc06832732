#pragma once

/// The options about experts, their router and their dispatcher, with Megatron's defaults where they are not
/// given.
///
/// Exact   Coefficients are the decimal numbers that are given, as ratios. A model without experts has
///         num_experts 0, and none of its other values has an effect. Of the losses that balance
///         experts, those are read that GptExperts has.
/// Errors  not_a_number: a coefficient that is no decimal number of at least 0, or one whose ratio needs more
///         than 31 bits; layer_pattern: a pattern of layers that cannot be read;
///         expert_options_without_experts: an option without effect.
/// Source  Megatron-LM, core/transformer/transformer_config.py.

#include "sim/model/gpt_config.h"

namespace verify {

class Settings;

sim::GptExperts expert_options(const Settings& settings);

/// Refuses options about experts in a model without experts. Megatron ignores them, as a run of --from may,
/// too.
void require_effective_expert_options(const Settings& settings);

}  // namespace verify
