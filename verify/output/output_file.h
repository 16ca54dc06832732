#pragma once

/// An output file of a command. The path is checked before any work begins, and the text is written at once:
/// under another name in the same folder, which is then renamed, so that readers find the old file or the new
/// one, but never a part of one. A link is followed: the file to which it points, even if it does not exist
/// yet, is replaced, and keeps its permissions. The file of the other name is always created anew, so that no
/// file or link that is already there is written to.
///
/// Errors  report_file, junit_file, trace_file, svg_file, from_as_file: the path has no existing folder, is a
///         folder or a device, cannot be written, has the name of a scenario (.ini), is the file of another
///         option, is an input of the command, or is the file to which standard output or standard error go,
///         where a replacement would lose the result. They are thrown by the constructor and by the two
///         checks, and by write if the file cannot be written any more.

#include <filesystem>
#include <string>

namespace verify {

/// Writes a file whose name the program has chosen, whole or not at all. A link of this name is replaced, and
/// not followed. Returns whether the file is there: it is not if something other than a file or a link has
/// the name, or if the folder is not writable.
bool write_whole_file(const std::filesystem::path& path, const std::string& text);

class OutputFile {
 public:
  /// Whether the path may have the name of a scenario (.ini): only the option that writes one may.
  enum class Scenario { must_not_be, may_be };
  /// `option` is the name of the option without "--"; the code of its refusals is "OPTION_file". The
  /// constructor tries whether the folder can be written.
  OutputFile(std::string option, const std::string& path, Scenario scenario = Scenario::must_not_be);
  /// Refuses if both are the same file.
  void require_differs_from(const OutputFile& other) const;
  /// Refuses if this is the file `input`, which the command reads: a scenario or a text.
  void require_is_no_input(const std::string& input) const;
  void write(const std::string& text) const;

 private:
  [[noreturn]] void refuse_path(const std::string& problem) const;

  std::string option_;
  std::filesystem::path given_;
  std::filesystem::path path_;  // absolute, with links followed
};

}  // namespace verify
