#pragma once

/// What Megatron's parser takes as the values of arguments that the command line does not know: words, whole
/// numbers and decimal numbers. Values of the arguments that it knows are read with its options.
///
/// Exact   Numbers are read where they are one word; run_validation.h refuses none and several.
/// Errors  bad_choice: a word that is not among the choices; not_a_number: a value that is no number of its
///         kind.
/// Source  Megatron-LM at d98e8a64ddf3 and Megatron Core 0.19.2: training/arguments.py.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/refusals.h"
#include "verify/megatron_rules/run_values.h"

namespace verify {

/// Whether the value of an argument is one of a few words.
bool is_choice_argument(std::string_view name);

/// Keeps a refusal for every argument whose value the parser does not take. Returns whether there is one.
/// Words that forks add to an optimizer or a tokenizer are left out.
bool keep_unreadable_values(const RunValues& values, sim::Refusals& refusals);

/// Returns those words, each with its argument.
std::vector<std::pair<std::string, std::string>> words_of_forks(const RunValues& values);

}  // namespace verify
