#include "tests/house/source_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace test {

namespace fs = std::filesystem;

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_with(const std::string& text, const std::vector<std::string>& signs) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto stands_in_line = [&](const std::string& sign) { return line.find(sign) != std::string::npos; };
    if (std::any_of(signs.begin(), signs.end(), stands_in_line)) found.push_back(line);
  }
  return found;
}

std::vector<SourceFile> files_under(const std::string& root, const std::vector<std::string>& folders,
                                    const std::vector<std::string>& endings) {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    if (!fs::exists(fs::path(root) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
      const std::string ending = entry.path().extension().string();
      const bool wanted =
          endings.empty() || std::find(endings.begin(), endings.end(), ending) != endings.end();
      if (!entry.is_regular_file() || !wanted) continue;
      files.push_back({fs::relative(entry.path(), root).string(), text_of_file(entry.path().string())});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::vector<SourceFile> sources_of(const std::string& root) {
  return files_under(root, {"sim", "gpu", "verify", "tests"}, {".h", ".cpp", ".cu"});
}

}  // namespace test
