#pragma once

/// The sizes that memory needs and that a run leaves out, taken from what else it says. Each is used as if it
/// were given on the command line.
///
/// Calls   vocab-size   that of the tokenizer which the run names (tokenizers.tsv); else 32,000 entries,
///                      and `knows_vocabulary` is false: vocabulary_law.h says what others take
///         seq-length   --max-position-embeddings if only that is given, and the other way round for a run
///         world-size   the fewest ranks that the layout takes, if the run does not say how many it has, or
///                      if a script starts fewer, as on one node by default
/// Exact   Nothing is taken that is given, except for ranks with which Megatron would not start.
/// Errors  missing_option: sizes of the model that are not given and cannot be taken; run_unresolved: values
///         of a script that nobody knows without executing it, with the sizes that are missing beside them;
///         those of Settings: a value that is no number.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/megatron_rules/run_values.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

struct AssumedSize {
  std::string option;  // without dashes
  std::int64_t value = 0;
  std::string sentence;  // what it was taken from
};

struct AssumedSizes {
  CommandLine line;  // with these sizes
  std::vector<AssumedSize> sizes;
  bool knows_vocabulary = true;
};

/// Returns the fewest ranks that a layout takes; nothing if they do not fit into 64 bits.
std::optional<std::int64_t> fewest_ranks(const Settings& settings);

/// Returns the command line with the sizes that its scenario leaves out. Without `takes_world`, the world is
/// left as it is.
AssumedSizes with_assumed_sizes(const CommandLine& line, bool takes_world);

/// Asks for all that the count of memory needs and cannot take: one refusal with one line that answers it.
void require_answers(const CommandLine& line);

/// The size of the vocabulary that a run names by its tokenizer, if that size is published.
///
/// Calls   The arguments --tokenizer-type, --tokenizer-model, --tokenizer-name-or-path and --vocab-file are
///         read in this order. The first one that has a name of tokenizers.tsv counts.
/// Exact   A name is a whole word of the argument: "llama-3" is in "Meta-Llama-3-8B", and neither in
///         "llama-30b" nor in "Llama-3.1-8B", which has a row of its own.
struct NamedVocabulary {
  std::int64_t entries = 0;  // before they are padded
  std::string argument;      // "--tokenizer-model meta-llama/Meta-Llama-3-8B"
  std::string source;        // where the size is published
};

std::optional<NamedVocabulary> named_vocabulary(const RunValues& values);

}  // namespace verify
