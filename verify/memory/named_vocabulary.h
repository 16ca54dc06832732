#pragma once

/// The size of the vocabulary that a run names by its tokenizer, if that size is published.
///
/// Calls   The arguments --tokenizer-type, --tokenizer-model, --tokenizer-name-or-path and --vocab-file are
///         read in this order. The first one that has a name of tokenizers.tsv counts.
/// Exact   A name is a whole word of the argument: "llama-3" is in "Meta-Llama-3-8B", and neither in
///         "llama-30b" nor in "Llama-3.1-8B", which has a row of its own.
/// Source  tokenizers.tsv has the source of each size.

#include <cstdint>
#include <optional>
#include <string>

#include "verify/megatron_rules/run_values.h"

namespace verify {

struct NamedVocabulary {
  std::int64_t entries = 0;  // before they are padded
  std::string argument;      // "--tokenizer-model meta-llama/Meta-Llama-3-8B"
  std::string source;        // where the size is published
};

std::optional<NamedVocabulary> named_vocabulary(const RunValues& values);

}  // namespace verify
