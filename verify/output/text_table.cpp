#include "verify/output/text_table.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/printable_text.h"

namespace verify {

void TextTable::add(std::vector<std::string> cells, fmt::text_style first_cell) {
  CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = sim::printable_text(cell);
  rows_.push_back({std::move(cells), first_cell});
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  Row titles;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    titles.cells.push_back(columns_[c].title);
    std::size_t width = columns_[c].title.size();
    for (const Row& row : rows_) width = std::max(width, row.cells[c].size());
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const Row& row) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const std::string padding(widths[c] - row.cells[c].size(), ' ');
      const std::string cell = c == 0 ? fmt::format(row.first_cell, "{}", row.cells[c]) : row.cells[c];
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  const auto has_title = [](const Column& column) { return !column.title.empty(); };
  if (std::ranges::any_of(columns_, has_title)) add_line(titles);
  for (const Row& row : rows_) add_line(row);
  return out;
}

}  // namespace verify
