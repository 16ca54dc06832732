#pragma once

/// What stands at the path of an input file, and its text.
///
/// Exact   Only a plain file is opened: opening a named pipe or a device may wait for ever.

#include <cstddef>
#include <string>

namespace verify {

/// Returns why a path cannot be read as a file ("it is a folder, not a file"); "" where it is a plain file.
std::string what_is_no_plain_file(const std::string& path);

/// The text of a file, or why there is none.
struct InputText {
  std::string text;
  std::string problem;  // "there is no such file"; "" where the text is that of the file
};
InputText text_of_input(const std::string& path, std::size_t most_bytes);

/// Returns a line, or a part of one, without the blanks at its ends.
std::string without_blanks(const std::string& text);

}  // namespace verify
