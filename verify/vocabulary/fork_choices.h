#pragma once

/// Words of which only a few are allowed. The refusal of another one says, beside the words that there are,
/// whose value it is, where a fork of Megatron-LM or an older version of it knows it, and what to try.
///
/// Errors  bad_choice: another word.
/// Source  Launch scripts of MindSpeed-LLM (DeepSeek-V2 and V3) and Megatron-DeepSpeed (BLOOM); choices of
///         Megatron-LM before Megatron Core 0.13.

#include <string>
#include <vector>

namespace verify {

/// Refuses a word that is none of `choices`; the option is written without its dashes.
void require_choice(const std::string& option, const std::string& word,
                    const std::vector<std::string>& choices);

}  // namespace verify
