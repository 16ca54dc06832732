#pragma once

/// Values of options as words spell them: decimal numbers, bytes, and words of which only a few are allowed.
/// A refusal of a word that is no number says what to try: "1024," of an array with commas, '$TP' of a text
/// in single quotes, "4k", "2.0". That of a word that is no choice says which fork of Megatron-LM, or which
/// older version of it, knows the word (fork_choices.tsv).
///
/// Exact   kB, MB, GB and TB are powers of 1000, and KiB, MiB, GiB and TiB are powers of 1024; a number alone
///         is in bytes. A fraction of a byte is cut off.
/// Errors  not_a_number; bad_choice; memory_size: a text that is no number of bytes with one of these units,
///         a number that is not between 1 byte and 2^60 bytes, or one without a unit that is less than 1 MiB,
///         whose unit was forgotten.
/// Source  Launch scripts of MindSpeed-LLM (DeepSeek-V2 and V3) and Megatron-DeepSpeed (BLOOM); choices of
///         Megatron-LM before Megatron Core 0.13.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tensor/kernel_parameters.h"

namespace verify {

/// Returns the text as a decimal number, as in "0.1"; nothing where it is none.
std::optional<double> decimal_number(std::string_view text);

/// Returns a decimal number such as "2.5", also with an exponent, as an exact ratio in lowest terms; nothing
/// where the text is none, or where the ratio needs more than 31 bits.
std::optional<sim::Ratio> decimal_ratio(std::string_view text);

/// Returns the bytes that the text of `option` says, such as "80GB" or "512 MiB".
std::int64_t byte_size(const std::string& option, const std::string& text);

std::string hint_for_number(std::string_view option, std::string_view word);

/// Refuses a word that is no number. Options are written without their dashes.
[[noreturn]] void refuse_number(const std::string& option, const std::string& word, const char* rule);

/// Refuses a word that is none of `choices`.
void require_choice(const std::string& option, const std::string& word,
                    const std::vector<std::string>& choices);

}  // namespace verify
