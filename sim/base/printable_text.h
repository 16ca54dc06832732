#pragma once

/// Makes text from outside (of an exception, a file name, an argument, a tensor's name) safe to print within
/// a line: it can neither control the terminal nor begin a line of its own.
///
/// Exact   A control character (of ASCII, or from U+0080 to U+009F), and each byte that is not part of a
///         UTF-8 character, is written as an escape: "\n", "\t" or "\x1b". All other characters are kept,
///         also backslashes, so making a text printable twice gives the same as once.
/// Errors  none: any bytes are accepted.

#include <cstddef>
#include <string>
#include <string_view>

namespace sim {

/// Returns the number of bytes of the UTF-8 character with which a text begins, or 0 if it begins with none.
/// The text must not be empty.
std::size_t character_bytes(std::string_view text);

std::string printable_text(std::string_view text);

}  // namespace sim
