#pragma once

/// A file that a command leaves behind: the path is judged before any work begins, and the text arrives all
/// at once. It is written under another name in the same folder and then renamed, so that whoever looks finds
/// the old file or the new one, never half of one. A link is followed: the file it leads to, or would lead
/// to, is the one that is replaced, and it keeps its permissions.
///
/// Errors  report_file, junit_file, trace_file, svg_file: no folder, a folder or a device, not to be written,
///         a scenario's name (.ini), the file of another option, or what the command reads. Thrown by the
///         constructor and, when the system has changed its mind, by write.

#include <filesystem>
#include <string>

namespace verify {

class OutputFile {
 public:
  /// `option` without "--"; the code of its refusals is "OPTION_file". Whether the folder can be written is
  /// tried.
  OutputFile(std::string option, const std::string& path);
  /// Refuses when both are one file.
  void check_differs_from(const OutputFile& other) const;
  /// Refuses when the command reads this file: a scenario, a text.
  void check_is_no_input(const std::string& input) const;
  void write(const std::string& text) const;

 private:
  [[noreturn]] void refuse_path(const std::string& problem) const;
  std::filesystem::path temporary() const;

  std::string option_;
  std::filesystem::path given_;
  std::filesystem::path path_;  // made absolute, links followed
};

}  // namespace verify
