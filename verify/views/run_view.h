#pragma once

/// Shows what becomes of the arguments of a run that --from reads: which are used, which have no effect,
/// which are not modelled, which are unknown and which could not be resolved.

#include <string>
#include <vector>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/json.h"

namespace verify {

/// Returns a text for each sentence, such as "--fp8-format hybrid, --fp8-recipe delayed: why it is not
/// modelled".
std::vector<std::string> argument_sentences(const std::vector<AccountedArgument>& arguments);

/// The first line of an answer: the file, and what it says of arguments and ranks.
std::string run_title(const RunOfFile& run);

/// The lists as text, wrapped at `columns`: those to look at, or all if `is_verbose`. "" if there are none.
std::string run_lists(const RunOfFile& run, int columns, bool is_verbose);

/// {"kind": "log", "used": {...}, "without_effect": [...], "not_modelled": {...}, "unknown": [...],
/// "unresolved": [...], "notes": [...]}. Flags have their dashes, and used values are numbers, texts or true.
Json run_json(const RunOfFile& run);

}  // namespace verify
