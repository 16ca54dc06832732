// Proves that the scripts of completion complete what the program reads, in bash and in zsh themselves.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/support/readme.h"
#include "tests/support/run.h"
#include "verify/output/phrases.h"
#include "verify/program/command_help.h"

namespace {

using Words = std::vector<std::string>;

const std::string kTests = std::string(SHARDPROOF_SOURCE_DIR) + "/tests/verify/program/";

bool is_here(const std::string& tool) { return test::run_process("command -v " + tool).exit_code == 0; }

std::string quoted(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += " " + (word.empty() ? "''" : verify::quoted_for_shell(word));
  return line;
}

/// Scripts of both shells, and a folder with a scenario, another file and a folder.
class Completion : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/inside");
    std::ofstream(folder_ + "/shardproof.bash") << verify::bash_completion(verify::shardproof_program());
    std::ofstream(folder_ + "/_shardproof") << verify::zsh_completion(verify::shardproof_program());
    std::ofstream(folder_ + "/in.ini") << "world-size = 2\n";
    std::ofstream(folder_ + "/in.txt") << "\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Returns what bash completes the last word to, sorted.
  Words in_bash(Words words) const {
    words.insert(words.begin(),
                 {"bash", kTests + "complete_in_bash.sh", folder_ + "/shardproof.bash", "shardproof"});
    const test::RunResult result = test::run_process("cd '" + folder_ + "' &&" + quoted(words));
    EXPECT_EQ(result.exit_code, 0) << result.out;
    Words completed = test::lines_of(result.out);
    std::sort(completed.begin(), completed.end());
    return completed;
  }

  const std::string folder_ = std::string(SHARDPROOF_BINARY_DIR) + "/completion-" + std::to_string(getpid());
};

TEST_F(Completion, BashCompletesCommandsOptionsValuesAndFiles) {
  if (!is_here("bash")) GTEST_SKIP() << "there is no bash here";
  const struct {
    Words words, completed;
  } kCases[] = {
      {{"gr"}, {"groups"}},
      {{"--world-size", "8", "gr"}, {"groups"}},
      {{"--world-size", "=", "8", "gr"}, {"groups"}},
      {{"--sequence-parallel", "gr"}, {"groups"}},
      {{"--comp"}, {"--completion"}},
      {{"--completion", ""}, {"bash", "zsh"}},
      {{"replay", "--train"}, {"--train-iters"}},
      {{"groups", "--train"}, {}},
      {{"replay", "--schedule", "p"}, {"pct"}},
      {{"replay", "--schedule", "=", "p"}, {"pct"}},
      {{"replay", "--schedule", "="}, {"pct", "round_robin", "uniform"}},
      {{"schedule", "--schedule", ""}, {"1f1b", "gpipe", "none"}},
      {{"groups", "--kind", "tp,inter"}, {"tp,inter-edp"}},
      {{"check", "--case", "ml"}, {"mlp"}},
      {{"check", "--dtype", "f3"}, {"f32"}},
      {{"replay", "--program", "mutual_s"}, {"mutual_send"}},
      {{"replay", "--help", "tra"}, {"training"}},
      {{"replay", "--world-size", ""}, {}},
      {{"replay", "in"}, {"in.ini", "inside"}},
      {{"replay", "--report", "in"}, {"in.ini", "in.txt", "inside"}},
      {{"replay", "in.ini", "--junit", "in.t"}, {"in.txt"}},
      {{"list", "in"}, {}},
      {{"memory", "--", "in"}, {"in.ini", "in.txt", "inside"}},
      {{"memory", "--", "torchrun", "--normalization", "in"}, {"in.ini", "in.txt", "inside"}},
  };
  for (const auto& one : kCases) EXPECT_EQ(in_bash(one.words), one.completed) << quoted(one.words);
}

TEST_F(Completion, BashOffersEachCommandTheOptionsThatItReads) {
  if (!is_here("bash")) GTEST_SKIP() << "there is no bash here";
  for (const verify::CommandInfo& command : verify::shardproof_program().commands) {
    Words expected = {"--help", "--version"};
    for (const verify::OptionInfo& option : verify::own_options(command))
      expected.push_back(std::string("--") + option.name);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(in_bash({command.name, "--"}), expected) << command.name;
  }
}

TEST_F(Completion, ZshCompletesCommandsOptionsValuesAndFiles) {
  if (!is_here("zsh")) GTEST_SKIP() << "there is no zsh here";
  const std::pair<const char*, const char*> kCases[] = {
      {"shardproof gr", "shardproof groups "},
      {"shardproof --completion z", "shardproof --completion zsh "},
      {"shardproof replay --train-i", "shardproof replay --train-iters="},
      {"shardproof replay --schedule p", "shardproof replay --schedule pct "},
      {"shardproof schedule --schedule=g", "shardproof schedule --schedule=gpipe "},
      {"shardproof groups --kind tp,inter", "shardproof groups --kind tp,inter-edp,"},
      {"shardproof check --case ml", "shardproof check --case mlp,"},
      {"shardproof list --train-i", "shardproof list --train-i"},
      {"shardproof replay in.", "shardproof replay in.ini "},
      {"shardproof replay --report in.t", "shardproof replay --report in.txt "}};
  Words words = {"timeout", "60", "zsh", kTests + "complete_in_zsh.zsh", folder_};
  Words expected;
  for (const auto& [typed, completed] : kCases) {
    words.emplace_back(typed);
    expected.emplace_back(completed);
  }
  const test::RunResult result = test::run_process("cd '" + folder_ + "' &&" + quoted(words));
  if (result.exit_code == 77) GTEST_SKIP() << "this zsh has no module zsh/zpty";
  EXPECT_EQ(test::lines_of(result.out), expected) << result.out;
}

}  // namespace
