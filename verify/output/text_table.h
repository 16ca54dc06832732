#pragma once

/// A table as text: columns are as wide as their widest cell and aligned left or right, and lines have no
/// trailing blanks. Control characters in cells are escaped (sim/base/printable_text.h).

#include <fmt/color.h>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace verify {

class TextTable {
 public:
  /// A title that begins with ">" is that of a column which is aligned right, as in fmt.
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}
  /// Adds a row of texts and numbers.
  template <typename... Cells>
  void row(Cells&&... cells) {
    add({fmt::format("{}", std::forward<Cells>(cells))...});
  }
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
  std::vector<std::string> titles_;
  std::vector<Row> rows_;
};

}  // namespace verify
