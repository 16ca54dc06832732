#pragma once

/// Texts in lines and words, and the words of commands, as the commands read them that print what they make
/// of a text (shell_filters.h, shell_line_programs.h).

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

/// What a command prints; nothing where that is not known.
using Printed = std::optional<std::string>;
using Texts = std::vector<std::string>;

inline constexpr std::size_t kMostFilteredBytes = std::size_t{1} << 20U;

/// Whether a text is of printable ASCII, blanks and line breaks.
bool is_plain_text(std::string_view text);

Texts lines_of(std::string_view text);
std::string text_of_lines(const Texts& lines);

/// Returns lines whose last one is that of a text, which may not end with a line break.
std::string text_of_last_lines(const Texts& lines, std::string_view whole);

Texts words_of_text(std::string_view text, std::string_view blanks);

/// Takes an option with its value, "-d :" or "-d:", from the beginning of words. Nothing where it is none.
Printed taken_option(Texts& words, std::string_view option);

}  // namespace verify
