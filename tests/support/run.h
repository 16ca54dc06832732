#pragma once

/// Runs the program in this process with the words of a command line, or runs any shell command, and
/// keeps what was written.

#include <string>
#include <vector>

namespace test {

struct RunResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

RunResult run(const std::vector<std::string>& arguments);

/// Does the same with words separated by blanks. 'single quotes' keep blanks in a word.
RunResult run(const std::string& command_line);

/// Runs a shell command. `out` holds what it wrote to standard output and standard error until its end. What
/// it leaves behind, such as a stopped process, is not waited for.
RunResult run_process(const std::string& command);

/// A file in the temporary folder of the tests, which is removed with the object.
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
