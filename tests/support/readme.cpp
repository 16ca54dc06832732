#include "tests/support/readme.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace test {

namespace {

bool agrees_from(const std::vector<std::string>& expected, const std::vector<std::string>& actual,
                 std::size_t e, std::size_t a) {
  if (e == expected.size()) return a == actual.size();
  if (expected[e] == "...") {
    for (std::size_t skip = a; skip <= actual.size(); ++skip) {
      if (agrees_from(expected, actual, e + 1, skip)) return true;
    }
    return false;
  }
  return a < actual.size() && expected[e] == actual[a] && agrees_from(expected, actual, e + 1, a + 1);
}

}  // namespace

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> manuals() {
  const std::filesystem::path root = SHARDPROOF_SOURCE_DIR;
  std::vector<std::string> paths = {"README.md"};
  for (const char* folder : {"sim", "gpu", "verify", "scenarios", "tests"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().filename() == "README.md")
        paths.push_back(std::filesystem::relative(entry.path(), root).string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> blocks(const std::string& markdown, const std::vector<std::string>& languages) {
  std::vector<std::string> found;
  bool inside = false;
  bool wanted = false;
  for (const std::string& line : lines_of(markdown)) {
    if (line.starts_with("```")) {
      inside = !inside;
      wanted = inside && std::find(languages.begin(), languages.end(), line.substr(3)) != languages.end();
      if (wanted) found.emplace_back();
    } else if (wanted) {
      found.back() += line + "\n";
    }
  }
  return found;
}

std::vector<Example> examples(const std::string& markdown) {
  std::vector<Example> found;
  for (const std::string& block : blocks(markdown, {"console"})) {
    for (const std::string& line : lines_of(block)) {
      if (line.starts_with("$ ")) {
        found.push_back({line.substr(2), {}});
      } else if (!found.empty()) {
        found.back().lines.push_back(line);
      }
    }
  }
  return found;
}

bool agrees(const std::vector<std::string>& expected, const std::vector<std::string>& actual) {
  return agrees_from(expected, actual, 0, 0);
}

}  // namespace test
