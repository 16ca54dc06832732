#pragma once

/// A table as text: columns are as wide as their widest cell and aligned left or right, and lines have no
/// trailing blanks. Control characters in cells are escaped (sim/base/printable_text.h).

#include <fmt/color.h>
#include <string>
#include <vector>

namespace verify {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Adds a row. The style applies to the first cell of the row, without its padding.
  void add(std::vector<std::string> cells, fmt::text_style first_cell = {});
  /// Returns the table. Every line starts with `indent` and ends with a newline. The line of titles is left
  /// out if all titles are empty.
  std::string text(const std::string& indent = "") const;

 private:
  struct Row {
    std::vector<std::string> cells;
    fmt::text_style first_cell;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace verify
