#pragma once

/// What to try in the place of a word that is no number: "1024," of an array with commas, '$TP' of a text in
/// single quotes, "4k", "2.0".

#include <string>
#include <string_view>

namespace verify {

std::string hint_for_number(std::string_view option, std::string_view word);

/// Refuses the word: not_a_number.
[[noreturn]] void refuse_number(const std::string& option, const std::string& word, const char* rule);

}  // namespace verify
