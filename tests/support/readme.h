#pragma once

/// Reads the manuals, which are the README.md files of the checkout: the commands of their console blocks
/// with the output that is shown, and their blocks of code.

#include <string>
#include <vector>

namespace test {

/// Returns the text of a file of the checkout, by its path from the root.
std::string file_text(const std::string& path);

/// Returns the path of every README.md of the checkout, from the root, in order.
std::vector<std::string> manuals();

std::vector<std::string> lines_of(const std::string& text);

/// A line "$ command" of a console block, and the lines under it.
struct Example {
  std::string command;
  std::vector<std::string> lines;
};
std::vector<Example> examples(const std::string& markdown);

/// Returns the text of each block that is marked with one of these languages.
std::vector<std::string> blocks(const std::string& markdown, const std::vector<std::string>& languages);

/// Whether the lines agree. A line "..." in `expected` stands for any number of lines.
bool agrees(const std::vector<std::string>& expected, const std::vector<std::string>& actual);

}  // namespace test
