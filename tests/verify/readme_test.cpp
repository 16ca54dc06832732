// Proves that README.md tells the truth. Every "$ ./shardproof ..." and "$ build/example ..." of a
// console block is run and must print the lines under it, where a line of three dots stands for any
// number of lines. The programs it shows are the files it names.

#include "tests/support/readme.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using test::agrees;
using test::Example;
using test::examples;
using test::file_text;
using test::lines_of;

/// Returns what the command prints, or "" for a command that is not one of ours.
std::string output_of(const std::string& command) {
  const std::string program = "./shardproof ";
  if (command.starts_with(program)) {
    const test::RunResult result = test::run(command.substr(program.size()));
    return result.out + result.err;
  }
  const std::string build = "build/";
  if (!command.starts_with(build + "example")) return "";
  return test::run_process(std::string(SHARDPROOF_BINARY_DIR) + "/" + command.substr(build.size())).out;
}

TEST(Readme, ExamplesPrintWhatTheReadmeShows) {
  int run = 0;
  for (const Example& example : examples(file_text("README.md"))) {
    if (example.lines.empty()) continue;
    const std::string output = output_of(example.command);
    if (output.empty()) continue;
    EXPECT_TRUE(agrees(example.lines, lines_of(output))) << example.command << "\nprints\n" << output;
    ++run;
  }
  EXPECT_GE(run, 5);
}

TEST(Readme, ShowsTheRankProgramThatIsBuilt) {
  const std::string program = file_text("tests/example/mean_loss.cpp");
  EXPECT_LE(lines_of(program).size(), 30U);
  EXPECT_NE(file_text("README.md").find("```cpp\n" + program + "```\n"), std::string::npos);
}

TEST(Readme, ShowsCodeThatIsBuilt) {
  std::string built;
  for (const char* name :
       {"CMakeLists.txt", "main.cpp", "scaled_linear.h", "scaled_linear.cpp", "scaled_linear_case.cpp"}) {
    built += file_text(std::string("tests/outside/") + name);
  }
  built += file_text("tests/example/mean_loss.cpp");
  const std::vector<std::string> blocks = test::blocks(file_text("README.md"), {"cpp", "cmake"});
  EXPECT_GE(blocks.size(), 5U);
  for (const std::string& block : blocks) EXPECT_NE(built.find(block), std::string::npos) << block;
}

TEST(Readme, TheComparisonSeesADifference) {
  EXPECT_TRUE(agrees({"a", "...", "c"}, {"a", "b", "b", "c"}));
  EXPECT_FALSE(agrees({"a", "...", "c"}, {"a", "b", "d"}));
  EXPECT_FALSE(agrees({"a"}, {"a", "b"}));
}

}  // namespace
