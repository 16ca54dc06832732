#include "tests/support/run.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "verify/program/program.h"

namespace test {

RunResult run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = verify::run_program(arguments, {out, err, false, false});
  return {exit_code, out.str(), err.str()};
}

RunResult run(const std::string& command_line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool in_word = false;
  for (const char c : command_line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (c == ' ' && !quoted) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  return run(words);
}

RunResult run_process(const std::string& command) {
  static std::atomic<int> runs = 0;
  const TemporaryFile output("output-" + std::to_string(runs++), "");
  const int status = std::system(("(" + command + ") > '" + output.path() + "' 2>&1").c_str());
  std::ifstream file(output.path(), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text.str(), ""};
}

TemporaryFile::TemporaryFile(const std::string& name, const std::string& text)
    : path_(testing::TempDir() + "shardproof-" + std::to_string(getpid()) + "-" + name) {
  std::ofstream(path_, std::ios::binary) << text;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace test
