// README.md tells the truth: every "$ ./shardproof ..." of a console block is run, and must print what stands
// under it. A line of three dots stands for any number of lines.

#include <cstddef>
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

TEST(Readme, ExamplesPrintWhatTheReadmeShows) {
  std::ifstream file(std::string(SHARDPROOF_SOURCE_DIR) + "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  int run = 0;
  for (const Example& example : examples(text.str())) {
    const std::string program = "./shardproof ";
    if (!example.command.starts_with(program) || example.lines.empty()) continue;
    const test::RunResult result = test::run(example.command.substr(program.size()));
    const std::vector<std::string> actual = lines_of(result.out + result.err);
    EXPECT_TRUE(agrees(example.lines, actual, 0, 0)) << example.command << "\nprints\n"
                                                     << result.out << result.err;
    ++run;
  }
  EXPECT_GE(run, 3);
}

TEST(Readme, TheComparisonSeesADifference) {
  EXPECT_TRUE(agrees({"a", "...", "c"}, {"a", "b", "b", "c"}, 0, 0));
  EXPECT_FALSE(agrees({"a", "...", "c"}, {"a", "b", "d"}, 0, 0));
  EXPECT_FALSE(agrees({"a"}, {"a", "b"}, 0, 0));
}

}  // namespace
