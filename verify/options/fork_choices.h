#pragma once

/// Values of Megatron's options that a fork of Megatron-LM or an older version of it knows, so that a refusal
/// can say whose they are.
///
/// Source  Launch scripts of these forks: MindSpeed-LLM (DeepSeek-V2 and V3), swiss-ai (Apertus), HabanaAI
///         (Mixtral), Pai-Megatron-Patch (Llama 3.1) and Megatron-DeepSpeed (BLOOM); and the choices of
///         Megatron-LM before Megatron Core 0.13.

#include <string_view>

namespace verify {

struct ForkChoice {
  const char* option;
  const char* word;
  const char* known_to;
  const char* instead;  // the options with which Megatron-LM comes nearest
};

/// Returns the row of a value; null where no fork is known to take it.
const ForkChoice* find_fork_choice(std::string_view option, std::string_view word);

}  // namespace verify
