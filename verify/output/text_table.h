#pragma once

/// A table for eyes: columns as wide as their widest cell, numbers to the right, no trailing blanks.

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
  /// The style paints the first cell of the row, not its padding.
  void add(std::vector<std::string> cells, fmt::text_style first_cell = {});
  /// Every line starts with `indent` and ends with a newline. Without titles when all titles are empty.
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
