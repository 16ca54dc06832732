#include "verify/output/table_rows.h"

#include <sstream>

#include "sim/base/check.h"

namespace verify {

std::vector<TextRow> rows_of_table(std::string_view text) {
  std::vector<TextRow> rows;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    TextRow cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '\t');) cells.push_back(std::move(cell));
    rows.push_back(std::move(cells));
    SIM_CHECK(rows.back().size() == rows.front().size());
  }
  SIM_CHECK(!rows.empty());
  rows.erase(rows.begin());
  return rows;
}

std::vector<std::string> words_of_cell(const std::string& cell) {
  std::vector<std::string> words;
  if (cell == "-") return words;
  std::istringstream parts(cell);
  for (std::string word; parts >> word;) words.push_back(std::move(word));
  return words;
}

}  // namespace verify
