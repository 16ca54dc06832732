#pragma once

/// What `read`, `mapfile` and `readarray` take of a text: lines, and the words of a line.
///
/// Shapes  A text is that of a here-document, a here-string or of what stands in < <(...). Marks of what is
///         not known (shell_values.h) are text like any other here.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

/// The variables of a `read`, and how it reads them.
struct ReadRequest {
  std::vector<std::string> names;
  bool is_raw = false;       // -r
  bool is_array = false;     // -a: the one variable gets all words
  bool is_whole = false;     // -d '': not only the first line
  bool is_followed = false;  // there is no other option
};

/// Returns what a command asks for; one that is not `read` is not followed.
ReadRequest read_request(const std::vector<ShellField>& words);

/// The array of a `mapfile` or `readarray`, and what ends an element.
struct ArrayRequest {
  std::string name = "MAPFILE";
  char end = '\n';          // -d
  bool keeps_end = true;    // without -t
  bool is_followed = true;  // there is no other option
};

ArrayRequest array_request(const std::vector<ShellField>& words);

/// Returns the elements that a `mapfile` makes of a text.
std::vector<std::string> elements_of_input(std::string_view text, const ArrayRequest& asked);

/// A text, of which a part may have been taken.
struct ReadText {
  std::string text;
  std::size_t taken = 0;  // bytes at its begin
  std::string_view rest() const { return std::string_view(text).substr(taken); }
};

struct InputLine {
  std::string text;       // without the line break
  bool is_ended = false;  // a line break stands behind it: `read` succeeds
};

/// Takes the first line of a text, or all of it.
InputLine take_line(ReadText& input, bool is_whole);

/// Takes the first word from a text whose words these signs separate. Blanks among them separate words as
/// often as they stand there; each other sign ends a word.
std::optional<std::string> next_of_input(std::string_view& text, const std::string& signs);

/// Returns a text without the blanks at its ends that are among these signs.
std::string without_blanks(std::string_view text, std::string_view signs = " \t");

}  // namespace verify
