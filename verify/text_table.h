#pragma once

/// A table for eyes: columns as wide as their widest cell, numbers to the right, no trailing blanks.

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
  void add(std::vector<std::string> cells);
  /// Every line starts with `indent` and ends with a newline. Without titles when all titles are empty.
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace verify
