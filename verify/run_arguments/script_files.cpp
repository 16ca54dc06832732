#include "verify/run_arguments/script_files.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "sim/base/printable_text.h"
#include "verify/output/input_file.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::size_t kMostFiles = 50;

bool is_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = sim::character_bytes(text);
    const bool is_control =
        text[0] >= '\0' && text[0] < ' ' && std::string_view("\t\n\r\f\v").find(text[0]) > 4;
    if (bytes == 0 || is_control) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

std::string with_plain_lines(std::string_view text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text.substr(at, 2) != "\r\n") lines += text[at];
  return lines;
}

ScriptFiles::ScriptFiles(const std::string& path) {
  std::error_code error;
  if (path.empty()) return;
  script_ = std::filesystem::absolute(path, error).lexically_normal().string();
  folder_ = std::filesystem::path(script_).parent_path().string();
}

std::string ScriptFiles::path_of(const std::string& written, const std::string& folder) const {
  if (written.empty()) return "";
  const std::filesystem::path begin = folder.empty() ? folder_ : folder;
  std::string path = (begin / written).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool ScriptFiles::is_beside(const std::string& path) const {
  const std::string above = std::filesystem::path(folder_).parent_path().string();
  return !folder_.empty() && path.starts_with(above.ends_with('/') ? above : above + "/");
}

bool ScriptFiles::has_folder(const std::string& path) const {
  std::error_code error;
  return is_beside(path + "/") && std::filesystem::is_directory(path, error);
}

std::optional<std::string> ScriptFiles::text_of(const std::string& path) {
  if (const auto found = texts_.find(path); found != texts_.end()) return found->second;
  if (!is_beside(path) || texts_.size() == kMostFiles) return std::nullopt;
  const InputText input = text_of_input(path, kMostScriptBytes);
  if (!input.problem.empty() || !is_text(input.text)) return std::nullopt;
  return texts_[path] = with_plain_lines(input.text);
}

}  // namespace verify
