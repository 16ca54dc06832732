#pragma once

/// Tables in text that are compiled into the program (CMakeLists.txt): a row in a line, with a tab between
/// two cells. A line that begins with "#" is a comment, and the first row names the columns.

#include <string>
#include <string_view>
#include <vector>

namespace verify {

using TextRow = std::vector<std::string>;

/// Returns the rows behind the first one, each with as many cells as that one (SIM_CHECK).
std::vector<TextRow> rows_of_table(std::string_view text);

/// Returns what is made of each of these rows.
template <typename Make>
auto made_of_rows(std::string_view text, const Make& make) {
  std::vector<decltype(make(TextRow()))> all;
  for (const TextRow& row : rows_of_table(text)) all.push_back(make(row));
  return all;
}

/// Returns the words of a cell, which blanks separate; none of "-".
std::vector<std::string> words_of_cell(const std::string& cell);

}  // namespace verify
