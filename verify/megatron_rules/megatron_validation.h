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
///         attention.py, moe/moe_layer.py, core/tensor_parallel/utils.py (divide); TransformerEngine,
///         context_parallel.py.

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/warning.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Keeps a refusal for every rule that the settings break, among the rules whose options `reader` reads. The
/// options of a run are not held to the rules that only a step breaks, and to those about experts where they
/// are DeepSpeed's.
void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const RunOfFile& run = {});

/// Returns a warning for each rule that only a step breaks, of a run whose arguments Megatron takes.
std::vector<sim::Warning> megatron_warnings(const Settings& settings, const RunOfFile& run);

/// Returns the warnings of warnings.tsv about the options of a command: "replay" or "memory".
std::vector<sim::Warning> option_warnings(const Settings& settings, std::string_view command);

/// Returns what to try where a step breaks one of these rules; "" where it breaks none.
std::string megatron_hint(const Settings& settings, const RunOfFile& run);

/// Returns warnings of context parallelism at which the first layer stops: of heads that cannot be exchanged,
/// of a window whose keys go around a ring, and of latent attention whose heads a kind does not take.
std::vector<sim::Warning> context_warnings(const Settings& settings);

}  // namespace verify
