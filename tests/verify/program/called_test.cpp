// Lines that reproduce a result name the program as it was called, from PATH, by a path, or by the script.

#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run.h"
#include "tests/support/temporary_folder.h"
#include "verify/program/program.h"

namespace {

/// Returns what the program prints that was called so.
std::string printed(const std::string& called, const std::vector<std::string>& words) {
  std::ostringstream out, err;
  verify::run_program(words, {out, err}, {}, std::nullopt, called);
  return out.str() + err.str();
}

TEST(Called, LinesThatReproduceNameTheProgramAsItWasCalled) {
  const std::string called = "'my build/shardproof'";
  const auto expect = [&](const std::vector<std::string>& words, const std::string& line) {
    const std::string text = printed(called, words);
    EXPECT_NE(text.find(called + line), std::string::npos) << text;
    EXPECT_EQ(text.find("./shardproof"), std::string::npos) << text;
  };
  expect({"replay", "--world-size", "4", "--program", "crossed_groups"}, " replay --program crossed_groups");
  const std::string softmax = "device.softmax:scale=2";
  expect(
      {"replay", "--world-size", "2", "--case", "self_attention", "--property", "serial", "--plant", softmax},
      " replay --case self_attention --dimensions ");
  expect({"check", "replay.ini"}, " replay replay.ini");
  expect({"exam", "replay.ini"}, " exam --catalogue replay.ini");
  expect({"exam", "--catalogue", "--case", "self_attention", "--format", "json"},
         " check --case self_attention");
}

/// Of what the script needs, programs that do nothing but what it waits for. Its program is a shell.
constexpr const char* kPlayed =
    "mkdir tools && printf '#!/bin/sh\necho install ok installed\n' >tools/dpkg-query && "
    "printf '#!/bin/sh\nmkdir -p \"$6\" && : >\"$6/build.ninja\"\n' >tools/cmake && "
    "printf '#!/bin/sh\nln -sf /bin/bash \"$2/shardproof\"\necho ninja: no work to do.\n' >tools/ninja && "
    "chmod +x tools/* && export PATH=$PWD/tools:$PATH && ";

TEST(Called, TheScriptNamesItselfToTheProgram) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path());
  std::filesystem::copy_file("shardproof", folder.path() + "/shardproof");
  const std::string in_folder = "cd '" + folder.path() + "' && ";
  const std::string says = " -c 'echo called $0' | tail -n 1";
  const auto called = [&](const std::string& command) {
    return test::run_process(in_folder + "export PATH=$PWD/tools:$PATH && " + command + says).out;
  };
  const test::RunResult first = test::run_process(in_folder + kPlayed + "./shardproof" + says);
  EXPECT_NE(first.out.find("called ./shardproof\n"), std::string::npos) << first.out;
  EXPECT_EQ(called("bash shardproof"), "called ./shardproof\n");
  EXPECT_EQ(called("cd tools && ../shardproof"), "called ../shardproof\n");
  const std::string path = folder.path() + "/shardproof";
  EXPECT_EQ(called(path), "called " + path + "\n");
  EXPECT_EQ(called("ln -s ../shardproof tools/sp && sp"), "called " + folder.path() + "/tools/sp\n");
}

TEST(Called, OwnCommandsOfTheScriptHaveAHelpThatDoesNothing) {
  for (const char* command : {"test", "format", "lint", "benchmarks"}) {
    const test::RunResult help = test::run_process(std::string("./shardproof ") + command + " --help");
    EXPECT_EQ(help.exit_code, 0) << help.out;
    EXPECT_NE(help.out.find(std::string("./shardproof ") + command), std::string::npos) << help.out;
  }
}

/// A glob that ninja checks is work that is never done, so the script would build before each call.
TEST(Called, NoGlobIsCheckedBeforeEachCall) {
  const auto built = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "build.ninja";
  ASSERT_TRUE(std::filesystem::exists(built)) << built;
  const test::RunResult found = test::run_process("grep -c verify_globs '" + built.string() + "'");
  EXPECT_EQ(found.out, "0\n");
}

}  // namespace
