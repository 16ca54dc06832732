#pragma once

/// The rules by which Megatron refuses a configuration before it trains, when it builds its model and its
/// groups, or in its first step: the rows of rules.tsv (rule_table.h), held against options and against the
/// arguments of a run of --from, and what Megatron's parser takes. The rules of the grid, of the placement of
/// layers, of the batch and of the schedule are those of make_layout, requested_placement,
/// microbatches_of_batch and sim::check, and stand there.
///
/// An option that is not given has Megatron's default if the model is given: all rules about experts need
/// --num-experts or an expert grid, and a model without --num-experts is dense if its shape is given.
///
/// Calls   A command is held to the rules of which it reads every option. The rule book `legacy` has the
///         rules about sizes alone. replay holds a run against all rules; the other commands show parts of a
///         run, and are held to what they show.
/// Errors  those of rules.tsv; flag_with_value, value_missing, values_too_many, list_with_commas: words that
///         Megatron's parser does not take; bad_choice: a word that is not among the choices of an
///         argument; not_a_number: a value that is no number of its kind.
/// Exact   A log is not held against these rules: Megatron writes its arguments after it has checked them,
///         with what it has derived among them. Arguments that are not known are named, and not refused,
///         because a training script adds arguments of its own. A rule about a number that only a shell could
///         tell is not held, and the number is listed as unresolved. A rule about the environment is held
///         against the variables that the file sets, and an argument that an option of the command line
///         replaces has the value of that option.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, training/argument_utils.py,
///         core/transformer/transformer_config.py, attention.py, moe/moe_layer.py,
///         core/tensor_parallel/utils.py (divide), core/model_parallel_config.py, core/parallel_state.py,
///         core/num_microbatches_calculator.py, core/optimizer/optimizer_config.py,
///         core/distributed/distributed_data_parallel_config.py; TransformerEngine, context_parallel.py.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// What a command asks of a run. An argument that has no effect on it refuses nothing: if only sizes are
/// asked for, a learning rate, for example, and if the whole run is, a path.
enum class Asked { whole_run, sizes };

/// Keeps a refusal for every rule that the run breaks on this many ranks. Returns whether there is one.
bool keep_run_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size, Asked asked,
                       sim::Refusals& refusals);

/// Refuses every argument of a script that says a size and after which Megatron's parser takes other words,
/// for the commands that judge nothing else of a run.
void require_parsed_words(const RunOfFile& run);

/// Returns the words that forks add to an optimizer or a tokenizer, each with its argument. They are not
/// refused.
std::vector<std::pair<std::string, std::string>> words_of_forks(const RunValues& values);

/// The warnings about arguments and words that are not Megatron's or stand twice with different values, about
/// words that nobody can read without executing the file, and about a program that trains no GPT.
std::vector<sim::Warning> warnings_of_file(const RunOfFile& run);

/// These, and the rows of warnings.tsv about a run: what devices that the file does not name would refuse,
/// and windows that Megatron's own attention (--transformer-impl local) has otherwise than the run says.
std::vector<sim::Warning> run_warnings(const RunOfFile& run);

/// A warning that Megatron refuses the run on this many ranks, for the commands that show a part of it and
/// judge no more. Missing arguments are not reported.
std::vector<sim::Warning> warnings_of_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size);

}  // namespace verify
