#pragma once

/// The rules by which Megatron refuses a run of --from before it trains, or when it builds its model and its
/// groups. They are rows of rules.tsv (rule_table.h), and what Megatron's parser takes.
///
/// Calls   replay holds a run against all of them, beside the rules of megatron_validation.h, of the layout,
///         of the placement and of the batch. The other commands show parts of a run, and are held to what
///         they show.
/// Errors  those of rules.tsv; flag_with_value, value_missing, values_too_many, list_with_commas: words that
///         Megatron's parser does not take; those of run_argument_values.h.
/// Exact   A log is not held against these rules: Megatron writes its arguments after it has checked them,
///         with what it has derived among them. Arguments that are not known are named, and not refused,
///         because a training script adds arguments of its own. A rule about a number that only a shell could
///         tell is not held, and the number is listed as unresolved. A rule about the environment is held
///         against the variables that the file sets, and an argument that an option of the command line
///         replaces has the value of that option.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, training/argument_utils.py,
///         core/transformer/transformer_config.py, core/model_parallel_config.py, core/parallel_state.py,
///         core/num_microbatches_calculator.py, core/optimizer/optimizer_config.py,
///         core/distributed/distributed_data_parallel_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/layout.h"
#include "verify/megatron_rules/run_of_file.h"

namespace verify {

/// What a command asks of a run. An argument that has no effect on it refuses nothing: if only sizes are
/// asked for, a learning rate, for example, and if the whole run is, a path.
enum class Asked { whole_run, sizes };

/// Keeps a refusal for every rule that the run breaks on so many ranks. Returns whether there is one.
bool keep_run_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size, Asked asked,
                       sim::Refusals& refusals);

/// Refuses every argument of a script that says a size and behind which Megatron's parser takes other words,
/// for the commands that judge nothing else of a run.
void require_parsed_words(const RunOfFile& run);

/// The warnings about arguments and words that are not Megatron's or stand twice with different values, about
/// words that nobody can read without executing the file, and about a program that trains no GPT.
std::vector<sim::Warning> warnings_of_file(const RunOfFile& run);

/// These, and the rows of warnings.tsv about a run: what devices that the file does not name would refuse,
/// and windows that Megatron's own attention (--transformer-impl local) has otherwise than the run says.
std::vector<sim::Warning> run_warnings(const RunOfFile& run);

/// A warning that Megatron refuses the run on so many ranks, for the commands that show a part of it and
/// judge no more. What the file leaves out is none of it.
std::vector<sim::Warning> warnings_of_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size);

}  // namespace verify
