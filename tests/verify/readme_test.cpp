// README.md tells the truth: every "$ ./shardproof ..." and "$ build/example ..." of a console block is run, and must print
// what stands under it. A line of three dots stands for any number of lines. The rank program it shows is the file it names.

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

struct Example {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Example> examples(const std::string& markdown) {
  std::vector<Example> found;
  bool inside = false;
  for (const std::string& line : lines_of(markdown)) {
    if (line.starts_with("```")) {
      inside = line == "```console";
      continue;
    }
    if (!inside) continue;
    if (line.starts_with("$ ")) {
      found.push_back({line.substr(2), {}});
    } else if (!found.empty()) {
      found.back().lines.push_back(line);
    }
  }
  return found;
}

bool agrees(const std::vector<std::string>& expected, const std::vector<std::string>& actual, std::size_t e,
            std::size_t a) {
  if (e == expected.size()) return a == actual.size();
  if (expected[e] == "...") {
    for (std::size_t skip = a; skip <= actual.size(); ++skip) {
      if (agrees(expected, actual, e + 1, skip)) return true;
    }
    return false;
  }
  return a < actual.size() && expected[e] == actual[a] && agrees(expected, actual, e + 1, a + 1);
}

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string output_of_process(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::getc(pipe); c != EOF; c = std::getc(pipe)) text.push_back(static_cast<char>(c));
  pclose(pipe);
  return text;
}

/// What the command prints; "" for a command that is not one of ours.
std::string output_of(const std::string& command) {
  const std::string program = "./shardproof ";
  if (command.starts_with(program)) {
    const test::RunResult result = test::run(command.substr(program.size()));
    return result.out + result.err;
  }
  const std::string build = "build/";
  if (!command.starts_with(build + "example")) return "";
  return output_of_process(std::string(SHARDPROOF_BINARY_DIR) + "/" + command.substr(build.size()));
}

TEST(Readme, ExamplesPrintWhatTheReadmeShows) {
  int run = 0;
  for (const Example& example : examples(file_text("README.md"))) {
    if (example.lines.empty()) continue;
    const std::string output = output_of(example.command);
    if (output.empty()) continue;
    EXPECT_TRUE(agrees(example.lines, lines_of(output), 0, 0)) << example.command << "\nprints\n" << output;
    ++run;
  }
  EXPECT_GE(run, 5);
}

TEST(Readme, ShowsTheRankProgramThatIsBuilt) {
  const std::string program = file_text("tests/example/mean_loss.cpp");
  EXPECT_LE(lines_of(program).size(), 30U);
  EXPECT_NE(file_text("README.md").find("```cpp\n" + program + "```\n"), std::string::npos);
}

TEST(Readme, TheComparisonSeesADifference) {
  EXPECT_TRUE(agrees({"a", "...", "c"}, {"a", "b", "b", "c"}, 0, 0));
  EXPECT_FALSE(agrees({"a", "...", "c"}, {"a", "b", "d"}, 0, 0));
  EXPECT_FALSE(agrees({"a"}, {"a", "b"}, 0, 0));
}

}  // namespace
