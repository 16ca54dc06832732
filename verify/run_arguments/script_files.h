#pragma once

/// The files beside a launch script.
///
/// Shapes  Paths have "." and ".." taken out. Those of a script that is a file are absolute, and begin at its
///         folder, unless a `cd` has changed it.
/// Exact   Only plain files of text are opened, as large as a script may be, in the folder of the script, the
///         one above it and those below these; 50 at most.

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace verify {

/// Returns a text whose lines end with LF, also where they end with CR LF.
std::string with_plain_lines(std::string_view text);

class ScriptFiles {
 public:
  /// "" is the path of a text that is no file: nothing is beside it.
  explicit ScriptFiles(const std::string& path);

  const std::string& script() const { return script_; }
  /// Returns the path that a script in a folder means. `folder` is "" for its own.
  std::string path_of(const std::string& written, const std::string& folder) const;
  bool has_folder(const std::string& path) const;
  /// Returns the text of a file; none where it is not read.
  std::optional<std::string> text_of(const std::string& path);
  /// The texts that were read, by their paths.
  const std::map<std::string, std::string>& texts() const { return texts_; }

 private:
  bool is_beside(const std::string& path) const;

  std::string script_, folder_;
  std::map<std::string, std::string> texts_;
};

}  // namespace verify
