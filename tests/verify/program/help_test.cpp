// Proves that what the program says of itself is true: the examples run, the pages list what commands read,
// and they fit the screen.

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/readme.h"
#include "tests/support/refusal_code.h"
#include "tests/support/run.h"
#include "verify/program/command_help.h"
#include "verify/program/command_info.h"
#include "verify/program/program.h"
#include "verify/prove.h"
#include "verify/requests/backend_choice.h"

namespace {

using verify::CommandInfo;
using verify::OptionInfo;

verify::CaseList own_cases() {
  verify::CaseList cases;
  cases.push_back(verify::mlp_case());
  return cases;
}

std::string page(const std::vector<std::string>& words, int columns) {
  std::ostringstream out, err;
  EXPECT_EQ(verify::run_program(words, {.out = out, .err = err, .columns = columns}), 0) << err.str();
  return out.str();
}

/// Returns a page without the line breaks of wrapped text.
std::string unwrapped(const std::string& text) {
  std::string all;
  for (const std::string& line : test::lines_of(text)) {
    all += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (all.ends_with(" \\")) all.resize(all.size() - 2);
  }
  return all;
}

/// The examples are run as they stand, in a folder where the program and the scenarios are.
TEST(Help, EveryExampleEndsAsItSays) {
  const std::string folder = std::string(SHARDPROOF_BINARY_DIR) + "/help";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/bin");
  std::filesystem::create_symlink(std::string(SHARDPROOF_BINARY_DIR) + "/shardproof",
                                  folder + "/bin/shardproof");
  std::filesystem::create_symlink(std::string(SHARDPROOF_SOURCE_DIR) + "/scenarios", folder + "/scenarios");
  const verify::ProgramInfo& program = verify::shardproof_program();
  for (const CommandInfo& command : program.commands) {
    EXPECT_EQ(command.examples.size(), 3U) << command.name;
    const std::string help = unwrapped(page({command.name, "--help"}, 80));
    for (const verify::CommandExample& example : command.examples) {
      EXPECT_NE(help.find("shardproof " + example.words), std::string::npos) << help;
      const test::RunResult result = test::run_process(
          fmt::format("cd '{0}' && PATH='{0}/bin':$PATH && shardproof {1}", folder, example.words));
      EXPECT_EQ(result.exit_code, example.exit_code) << example.words << "\n" << result.out;
      const auto& codes = command.exit_codes;
      EXPECT_TRUE(std::any_of(codes.begin(), codes.end(),
                              [&](const auto& exit) { return exit.code == example.exit_code; }));
    }
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/report.html"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/gpipe.svg"));
  std::filesystem::remove_all(folder);
}

TEST(Help, EveryExampleOfAProjectsProgramEndsAsItSays) {
  const verify::CaseList cases = own_cases();
  for (const CommandInfo& command : verify::project_program("./mine", cases).commands) {
    EXPECT_EQ(command.examples.size(), 3U) << command.name;
    for (const verify::CommandExample& example : command.examples) {
      std::istringstream line(example.words);
      std::vector<std::string> words;
      for (std::string word; line >> word;) words.push_back(word);
      std::ostringstream out, err;
      EXPECT_EQ(verify::prove("./mine", words, cases, {out, err}), example.exit_code)
          << example.words << "\n"
          << out.str() << err.str();
    }
  }
}

/// Whether a command takes an option, on virtual ranks or on a backend.
bool is_taken(const CommandInfo& command, const OptionInfo& option) {
  const verify::CommandLine line = verify::parse_command_line(
      {command.name,
       fmt::format("--{}={}", option.name, option.kind == verify::OptionKind::flag ? "true" : "1"), "--rank",
       "1"});
  const bool has_backends =
      command.reader == verify::Reader::replay || command.reader == verify::Reader::check;
  std::vector<const verify::BackendKind*> backends = {nullptr};
  for (const verify::BackendKind& kind : verify::backend_kinds()) backends.push_back(&kind);
  if (!has_backends) backends.resize(1);
  return std::any_of(backends.begin(), backends.end(), [&](const verify::BackendKind* backend) {
    // --rank itself, which some commands refuse, is not asked about.
    verify::CommandLine asked = line;
    if (backend == nullptr && std::string(option.name) != "rank") asked.settings.remove("rank");
    return test::refusal_code([&] { verify::require_read_on(asked, command.reader, backend); }) == "none";
  });
}

TEST(Help, ACommandListsTheOptionsThatItTakesAndNoOthers) {
  int listed_options = 0;
  for (const CommandInfo& command : verify::shardproof_program().commands) {
    const std::string text = page({command.name, "--help", "all"}, 100);
    for (const OptionInfo& option : verify::option_vocabulary()) {
      const std::string name = option.name;
      if (name == "help" || name == "version" || name == "rank") continue;
      const bool is_listed = text.find("\n  --" + name + " ") != std::string::npos ||
                             text.find("\n  --" + name + "\n") != std::string::npos;
      EXPECT_EQ(is_listed, is_taken(command, option)) << command.name << " --" << name;
      listed_options += is_listed ? 1 : 0;
    }
  }
  EXPECT_GT(listed_options, 150);
}

TEST(Help, PagesFitTheScreen) {
  std::vector<std::vector<std::string>> calls = {{"--help"}, {"--help", "all"}};
  for (const CommandInfo& command : verify::shardproof_program().commands) {
    calls.push_back({command.name, "--help"});
    calls.push_back({command.name, "--help", "all"});
  }
  for (const int columns : {80, 100}) {
    for (const auto& words : calls) {
      for (const std::string& line : test::lines_of(page(words, columns)))
        EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << words.front() << ": " << line;
    }
  }
  EXPECT_LE(test::lines_of(page({"--help"}, 80)).size(), 40U);
  EXPECT_LE(test::lines_of(page({"replay", "--help"}, 80)).size(), 50U);
}

TEST(Help, EveryTextIsASentence) {
  const auto expect_sentence = [](const std::string& text) {
    EXPECT_TRUE(text.size() > 10 && text.front() >= 'A' && text.front() <= 'Z' && text.ends_with('.'))
        << text;
  };
  for (const OptionInfo& option : verify::option_vocabulary()) {
    for (const OptionInfo& variant : verify::variants_of(option)) expect_sentence(variant.help);
  }
  for (const verify::OptionSection& section : verify::option_sections()) expect_sentence(section.summary);
  for (const CommandInfo& command : verify::shardproof_program().commands) {
    expect_sentence(command.summary);
    expect_sentence(command.about);
    for (const verify::CommandExample& example : command.examples) expect_sentence(example.says);
    for (const verify::ExitCodeInfo& exit : command.exit_codes) expect_sentence(exit.means);
  }
}

TEST(Help, EverySectionHasOptionsAndEveryOptionASection) {
  const std::string all = page({"--help", "all"}, 100);
  for (const verify::OptionSection& section : verify::option_sections())
    EXPECT_NE(all.find(fmt::format("\n{}. ", section.title)), std::string::npos) << section.title;
  for (const OptionInfo& option : verify::option_vocabulary()) {
    if (option.readers == verify::Reader{}) continue;
    EXPECT_NE(all.find(fmt::format("\n  --{}", option.name)), std::string::npos) << option.name;
  }
}

TEST(Help, WordsBehindItChooseSections) {
  const std::string training = page({"replay", "--help", "training"}, 80);
  EXPECT_NE(training.find("--train-iters N"), std::string::npos) << training;
  EXPECT_EQ(training.find("--world-size"), std::string::npos) << training;
  EXPECT_NE(page({"--help", "training"}, 80).find("Read by replay."), std::string::npos);
  EXPECT_EQ(page({"--help", "replay"}, 80), page({"replay", "--help"}, 80));
  EXPECT_EQ(page({"replay", "--help", "some.ini"}, 80), page({"replay", "--help"}, 80));
  const test::RunResult unknown = test::run("replay --help trainin");
  EXPECT_NE(unknown.err.find("  try    shardproof replay --help training\n"), std::string::npos)
      << unknown.err;
}

TEST(Help, AnOptionThatMeansTwoThingsIsExplainedForItsCommand) {
  const std::string schedule = page({"schedule", "--help", "ranks"}, 100),
                    replay = page({"replay", "--help", "ranks"}, 100);
  EXPECT_NE(schedule.find("--schedule 1f1b|gpipe|none"), std::string::npos) << schedule;
  EXPECT_NE(replay.find("--schedule round_robin|uniform|pct"), std::string::npos) << replay;
  EXPECT_EQ(test::run("schedule --num-microbatches 2 --schedule pct").exit_code, 2);
  EXPECT_EQ(test::run("replay --world-size 2 --schedule gpipe").exit_code, 2);
}

TEST(Help, AMistakeIsAnsweredWithTheNearestNameAndTheWayOn) {
  const std::string option = test::run("replay --tensor-model-paralel-size 2").err;
  EXPECT_NE(option.find("  try    --tensor-model-parallel-size, or see shardproof replay --help\n"),
            std::string::npos)
      << option;
  const std::string command = test::run("grups").err;
  EXPECT_NE(command.find("  try    shardproof groups, or see shardproof --help\n"), std::string::npos)
      << command;
  const std::string effect = test::run("groups --world-size 8 --runs 5").err;
  EXPECT_NE(effect.find("  try    shardproof groups --help\n"), std::string::npos) << effect;
}

TEST(Help, AScenarioMayStandBehindAFlag) {
  const test::TemporaryFile file("behind.ini", "world-size = 8\n");
  EXPECT_EQ(test::run({"groups", "--use-tp-pp-dp-mapping", file.path()}).exit_code, 0);
}

TEST(ManPage, NamesEveryCommandAndOption) {
  const std::string text = verify::man_page(verify::shardproof_program());
  for (const OptionInfo& option : verify::option_vocabulary()) {
    std::string name = fmt::format("--{}", option.name);
    for (std::size_t at = name.find('-'); at != std::string::npos; at = name.find('-', at + 2))
      name.insert(at, "\\");
    EXPECT_NE(text.find("\n\\fB" + name + "\\fR"), std::string::npos) << name;
  }
  for (const CommandInfo& command : verify::shardproof_program().commands)
    EXPECT_NE(text.find(fmt::format("\n.SS \"{} ", command.name)), std::string::npos) << command.name;
  for (const std::string& line : test::lines_of(text)) EXPECT_FALSE(line.starts_with("'")) << line;
}

TEST(ManPage, GroffHasNothingToComplainAbout) {
  if (test::run_process("command -v groff").exit_code != 0) GTEST_SKIP() << "there is no groff here";
  const test::TemporaryFile file("shardproof.1", verify::man_page(verify::shardproof_program()));
  const test::RunResult result = test::run_process("groff -man -Tutf8 -ww '" + file.path() + "' >/dev/null");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  const test::RunResult shown = test::run_process("groff -man -Tascii -P-cbou '" + file.path() + "'");
  EXPECT_NE(shown.out.find("--tensor-model-parallel-size N"), std::string::npos);
  EXPECT_NE(shown.out.find("--pipeline-model-parallel-layout 'Et|tt|tt|ttL'"), std::string::npos);
}

}  // namespace
