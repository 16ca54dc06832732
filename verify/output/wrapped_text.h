#pragma once

/// Breaks text at blanks into lines of a limited width. A word that is longer than a line has a line to
/// itself.
///
/// Shapes  columns count bytes, which is right for text in ASCII.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

/// Returns the text as lines that are indented by `indent` blanks. The first line begins with `first`, which
/// is a line of its own where it is longer than the indent. Every line ends with a newline.
std::string wrapped(std::string_view first, std::size_t indent, std::string_view text, std::size_t columns);

/// Returns the same of words that may have blanks inside.
std::string wrapped_words(std::string_view first, std::size_t indent,
                          const std::vector<std::string_view>& words, std::size_t columns);

/// Returns a line of a shell, indented. A backslash continues it before an option where it is too long.
std::string wrapped_command(std::size_t indent, std::string_view command, std::size_t columns);

}  // namespace verify
