#pragma once

/// What the refusal of a value says beside the values that there are: whose value it is, where a fork of
/// Megatron-LM or an older version of it knows it, and an option to try.
///
/// Source  Launch scripts of MindSpeed-LLM (DeepSeek-V2 and V3) and Megatron-DeepSpeed (BLOOM); choices of
///         Megatron-LM before Megatron Core 0.13.

#include <string>
#include <vector>

namespace verify {

struct ChoiceHelp {
  std::string known;  // "; this one is known to MindSpeed-LLM alone", or ""
  std::string hint;   // what comes nearest in Megatron-LM
};

/// Returns the help with a word that is none of `choices`; the option is written without its dashes.
ChoiceHelp help_with_choice(const std::string& option, const std::string& word,
                            const std::vector<std::string>& choices);

}  // namespace verify
