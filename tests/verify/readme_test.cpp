// Proves that the manuals tell the truth, which are the README.md files of the tree. Every "$ ./shardproof
// ..." and "$ build/example ..." of a console block is run and must print the lines under it, where a line of
// three dots stands for any number of lines. Blocks of code are text of files that are built, and blocks of
// INI are scenarios that hold.

#include "tests/support/readme.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
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

const std::string kProgram = "./shardproof ";
const std::string kBuild = "build/";

/// Whether tests/verify/outside_test.cpp runs it, which builds that program.
bool is_run_outside(const std::string& command) {
  return command.starts_with(kBuild + "prove_scaled_linear");
}

/// Returns what the command prints, or "" for a command that is not one of ours.
std::string output_of(const std::string& command) {
  if (command.starts_with(kProgram)) {
    const test::RunResult result = test::run(command.substr(kProgram.size()));
    return result.out + result.err;
  }
  if (!command.starts_with(kBuild + "example")) return "";
  return test::run_process(std::string(SHARDPROOF_BINARY_DIR) + "/" + command.substr(kBuild.size())).out;
}

TEST(Readme, ExamplesPrintWhatIsShown) {
  int run = 0;
  for (const std::string& manual : test::manuals()) {
    for (const Example& example : examples(file_text(manual))) {
      if (is_run_outside(example.command)) continue;
      const std::string output = output_of(example.command);
      EXPECT_TRUE(agrees(example.lines, lines_of(output)))
          << manual << ": " << example.command << "\nprints\n"
          << output;
      ++run;
    }
  }
  EXPECT_GE(run, 10);
}

TEST(Readme, ShowsTheWholeRankProgramInTheManualOfItsRoom) {
  const std::string program = file_text("tests/example/mean_loss.cpp");
  EXPECT_LE(lines_of(program).size(), 30U);
  EXPECT_NE(file_text("sim/world/README.md").find("```cpp\n" + program + "```\n"), std::string::npos);
}

/// The files that manuals may show a part of: two programs that are written as a reader would write them.
std::vector<std::string> shown_files() {
  std::vector<std::string> texts;
  for (const char* folder : {"tests/example", "tests/outside"}) {
    const std::filesystem::path root = SHARDPROOF_SOURCE_DIR;
    for (const auto& entry : std::filesystem::directory_iterator(root / folder))
      texts.push_back(file_text(std::filesystem::relative(entry.path(), root).string()));
  }
  return texts;
}

TEST(Readme, ShowsCodeThatIsBuilt) {
  const std::vector<std::string> files = shown_files();
  std::size_t blocks = 0;
  for (const std::string& manual : test::manuals()) {
    for (const std::string& block : test::blocks(file_text(manual), {"cpp", "cmake"})) {
      bool is_built = false;
      for (const std::string& file : files) is_built |= file.find(block) != std::string::npos;
      EXPECT_TRUE(is_built) << manual << " shows what no built file has:\n" << block;
      ++blocks;
    }
  }
  EXPECT_GE(blocks, 7U);
}

TEST(Readme, ScenariosThatAreShownHold) {
  int shown = 0;
  for (const std::string& manual : test::manuals()) {
    for (const std::string& block : test::blocks(file_text(manual), {"ini"})) {
      const test::TemporaryFile scenario("shown.ini", block);
      const test::RunResult result = test::run({"replay", scenario.path(), "--layout-only"});
      EXPECT_EQ(result.exit_code, 0) << manual << " shows\n" << block << result.out << result.err;
      ++shown;
    }
  }
  EXPECT_GE(shown, 1);
}

TEST(Readme, TheComparisonSeesADifference) {
  EXPECT_TRUE(agrees({"a", "...", "c"}, {"a", "b", "b", "c"}));
  EXPECT_FALSE(agrees({"a", "...", "c"}, {"a", "b", "d"}));
  EXPECT_FALSE(agrees({"a"}, {"a", "b"}));
}

TEST(Readme, ManualsOfAllFoldersAreRead) {
  const std::vector<std::string> manuals = test::manuals();
  EXPECT_GE(manuals.size(), 30U);
  for (const char* path : {"README.md", "gpu/README.md", "scenarios/README.md", "sim/world/README.md",
                           "tests/defects/README.md", "verify/cases/README.md"}) {
    EXPECT_EQ(std::count(manuals.begin(), manuals.end(), path), 1) << path;
  }
}

}  // namespace
