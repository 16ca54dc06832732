#include "tests/support/run.h"

#include <cstdio>
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
  std::FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  RunResult result;
  for (int c = std::getc(pipe); c != EOF; c = std::getc(pipe)) result.out.push_back(static_cast<char>(c));
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

TemporaryFile::TemporaryFile(const std::string& name, const std::string& text)
    : path_(testing::TempDir() + "shardproof-" + std::to_string(getpid()) + "-" + name) {
  std::ofstream(path_, std::ios::binary) << text;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace test
