#pragma once

/// Text that is not ours (of an exception, a file's name, a word of the command line, a tensor's name) as one
/// that may be shown in a line: it can neither steer a terminal nor begin a line of its own.
///
/// Exact   A control character (of ASCII, and U+0080 to U+009F), and each byte that is no part of a character
///         in UTF-8, is written as an escape: "\n", "\t" or "\x1b". All other characters stay, and so does a
///         backslash, so that a text that was made printable twice is the same as once.
/// Errors  none: any bytes may come from anyone.

#include <cstddef>
#include <string>
#include <string_view>

namespace sim {

/// Returns the number of bytes of the character with which a text begins in UTF-8; 0 where it begins with
/// none. The text is not empty.
std::size_t character_bytes(std::string_view text);

std::string printable_text(std::string_view text);

}  // namespace sim
