// Proves that the manuals tell the truth, which are the README.md files of the tree. Every "$ ./shardproof
// ..." and "$ build/example ..." of a console block is run and must print the lines under it, where a line of
// three dots stands for any number of lines. Blocks of code are text of files that are built, and blocks of
// INI are scenarios that hold.

#include "tests/support/readme.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
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
      if (entry.is_regular_file())
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

/// Returns what `list` counts in its last line: "62 scenarios, ..., 21 kinds of groups", by noun.
std::map<std::string, std::string> counted() {
  std::map<std::string, std::string> counts;
  const std::string last = lines_of(test::run("list").out).back();
  const std::regex count("([0-9]+) ([a-z]+)");
  for (std::sregex_iterator at(last.begin(), last.end(), count), end; at != end; ++at)
    counts[at->str(2)] = at->str(1);
  return counts;
}

/// Returns the counts of a text that are wrong: "all 32 cases", where there are 33. `found` counts all of them.
std::vector<std::string> wrong_counts(const std::string& text,
                                      const std::map<std::string, std::string>& counts, int& found) {
  std::vector<std::string> wrong;
  const std::regex claim("\\b[Aa]ll ([0-9]+)\\s+(scenarios|checks|programs|properties|faults|cases)\\b");
  for (std::sregex_iterator at(text.begin(), text.end(), claim), end; at != end; ++at, ++found)
    if (counts.at(at->str(2)) != at->str(1)) wrong.push_back(at->str());
  return wrong;
}

TEST(Readme, CountsAreThoseThatListPrints) {
  const std::map<std::string, std::string> counts = counted();
  int found = 0;
  for (const std::string& manual : test::manuals())
    EXPECT_EQ(wrong_counts(file_text(manual), counts, found), std::vector<std::string>()) << manual;
  EXPECT_GE(found, 2);
  EXPECT_EQ(wrong_counts("All 1\ncases and all 2 faults", counts, found).size(), 2U);
}

TEST(Readme, TheGlossaryHasEveryKindOfGroupAndProperty) {
  const std::string glossary = file_text("verify/glossary.md");
  const auto document = nlohmann::ordered_json::parse(test::run("list --format json").out);
  std::vector<std::string> words = document["kinds"].get<std::vector<std::string>>();
  for (const auto& property : document["properties"]) words.push_back(property["name"]);
  for (const std::string& word : words)
    EXPECT_TRUE(std::regex_search(
        glossary,
        std::regex("(\n\\| |, )" + std::regex_replace(word, std::regex("\\*"), "\\*") + "(,| \\|)")))
        << word;
  const std::vector<std::string> lines = lines_of(glossary);
  EXPECT_GE(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("| "); }), 40);
}

TEST(Readme, TheManualOfLayoutsSaysWhatGroupsSend) {
  const auto words = [](const std::string& text) {
    return std::regex_replace(text, std::regex("\\s+"), " ");
  };
  const std::string manual = words(file_text("sim/layout/README.md"));
  for (const std::string& row : lines_of(file_text("verify/report/group_kinds.tsv"))) {
    const std::size_t tab = row.find('\t');
    if (row.starts_with("#") || row.starts_with("kind\t")) continue;
    EXPECT_NE(manual.find("- `" + row.substr(0, tab) + "`: " + row.substr(tab + 1)), std::string::npos)
        << row;
  }
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
