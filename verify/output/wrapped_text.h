#pragma once

/// Text in lines of a limited width, broken at blanks. A word that is longer than a line has a line to
/// itself.
///
/// Shapes  columns count bytes, which is right for text in ASCII.

#include <cstddef>
#include <string>
#include <string_view>

namespace verify {

/// Returns the text behind `first`, which is what its first line begins with. Further lines are indented by
/// `indent` blanks, and a first line that is longer than the indent is a line of its own. Every line ends
/// with a newline.
std::string wrapped(std::string_view first, std::size_t indent, std::string_view text, std::size_t columns);

/// Returns a line of a shell, indented. A backslash continues it before an option where it is too long.
std::string wrapped_command(std::size_t indent, std::string_view command, std::size_t columns);

}  // namespace verify
