#include "verify/output/text_table.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/printable_text.h"

namespace verify {

void TextTable::add(std::vector<std::string> cells, fmt::text_style first_cell) {
  SIM_CHECK(cells.size() == titles_.size());
  for (std::string& cell : cells) cell = sim::printable_text(cell);
  rows_.push_back({std::move(cells), first_cell});
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<bool> are_right;
  std::vector<std::size_t> widths;
  Row titles;
  for (std::size_t c = 0; c < titles_.size(); ++c) {
    are_right.push_back(titles_[c].starts_with('>'));
    titles.cells.push_back(titles_[c].substr(are_right[c] ? 1 : 0));
    widths.push_back(titles.cells[c].size());
    for (const Row& row : rows_) widths[c] = std::max(widths[c], row.cells[c].size());
  }
  std::string out;
  const auto add_line = [&](const Row& row) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const std::string padding(widths[c] - row.cells[c].size(), ' ');
      const std::string cell = c == 0 ? fmt::format(row.first_cell, "{}", row.cells[c]) : row.cells[c];
      if (c > 0) line += "  ";
      line += are_right[c] ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (!std::ranges::all_of(titles_, &std::string::empty)) add_line(titles);
  for (const Row& row : rows_) add_line(row);
  return out;
}

}  // namespace verify
