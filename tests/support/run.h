#pragma once

/// Runs the program in process, with the words of a command line, or any command of a shell; keeps what was
/// written.

#include <string>
#include <vector>

namespace test {

struct RunResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

RunResult run(const std::vector<std::string>& arguments);

/// The same, the words separated by blanks; 'single quotes' keep blanks in a word.
RunResult run(const std::string& command_line);

/// A command of the shell; `out` has what it wrote to standard output and standard error.
RunResult run_process(const std::string& command);

/// A file under the test's temporary folder, removed when the object goes.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace test
