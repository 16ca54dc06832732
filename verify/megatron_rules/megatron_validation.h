#pragma once

/// The rules by which Megatron refuses a configuration before it trains, or in its first step, held against
/// options. They are rows of rules.tsv (rule_table.h). The rules of the grid, of the placement of layers, of
/// the batch and of the schedule are those of make_layout, requested_placement, microbatches_of_batch and
/// sim::check, and stand there.
///
/// An option that is not given has Megatron's default if the model is given: all rules about experts need
/// --num-experts or an expert grid, and a model without --num-experts is dense if its shape is given.
///
/// Calls   A command is held to the rules of which it reads every option. The rule book `legacy` has the
///         rules about sizes alone.
/// Errors  those of rules.tsv.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, core/transformer/transformer_config.py,
///         attention.py, moe/moe_layer.py, core/tensor_parallel/utils.py (divide).

#include <string>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/layout.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Keeps a refusal for every rule that the settings break, among the rules whose options `reader` reads.
/// Rules with codes of `left_out` are not held.
void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const std::vector<std::string>& left_out = {});

/// Returns a warning for each of these rules that the settings break.
std::vector<sim::Warning> megatron_warnings(const Settings& settings, const std::vector<std::string>& codes);

/// Returns what to try where the settings break one of these rules; "" where they break none.
std::string megatron_hint(const Settings& settings, const std::vector<std::string>& codes);

}  // namespace verify
