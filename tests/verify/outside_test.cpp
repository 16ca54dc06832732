// Proves that another project (tests/outside), built against an installed tree, inherits every property
// for its layer, that a wrong layer is named, and that the manuals show what it prints.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <string_view>
#include <vector>
#include <yaml-cpp/yaml.h>

#include "tests/support/mpi.h"
#include "tests/support/readme.h"
#include "tests/support/run.h"

namespace {

const std::string& folder() {
  static const std::string path = std::string(SHARDPROOF_BINARY_DIR) + "/outside";
  return path;
}

std::string quoted(const std::string& path) { return "'" + path + "'"; }

void expect_done(const std::string& command) {
  const test::RunResult result = test::run_process(command);
  ASSERT_EQ(result.exit_code, 0) << command << "\n" << result.out;
}

/// Installs into an empty folder, so that no file of an older tree is found, and moves the tree.
void install() {
  std::filesystem::remove_all(folder());
  std::filesystem::create_directories(folder());
  expect_done(quoted(SHARDPROOF_CMAKE) + " --install " + quoted(SHARDPROOF_BINARY_DIR) + " --prefix " +
              quoted(folder() + "/elsewhere"));
  std::filesystem::rename(folder() + "/elsewhere", folder() + "/installed");
}

void build() {
  const std::string source = std::string(SHARDPROOF_SOURCE_DIR) + "/tests/outside";
  expect_done(quoted(SHARDPROOF_CMAKE) + " " + SHARDPROOF_CONFIGURE +
              " -DCMAKE_PREFIX_PATH=" + quoted(folder() + "/installed") + " -S " + quoted(source) + " -B " +
              quoted(folder() + "/build"));
  expect_done(quoted(SHARDPROOF_CMAKE) + " --build " + quoted(folder() + "/build") + " --parallel 2");
}

test::RunResult run(const std::string& command) {
  return test::run_process("cd " + quoted(folder()) + " && " + command);
}

void expect_manuals() {
  int shown = 0;
  for (const std::string& manual : test::manuals()) {
    for (const test::Example& example : test::examples(test::file_text(manual))) {
      if (!example.command.starts_with("build/prove_scaled_linear")) continue;
      const test::RunResult result = run(example.command);
      EXPECT_TRUE(test::agrees(example.lines, test::lines_of(result.out)))
          << manual << ": " << example.command << "\nprints\n"
          << result.out;
      ++shown;
    }
  }
  EXPECT_GE(shown, 3);
}

/// Returns the macros that the installed headers define, by what the preprocessor says of each file (-dD), and
/// that have not our prefix.
std::vector<std::string> foreign_macros() {
  std::string source;
  const std::filesystem::path headers = folder() + "/installed/include/shardproof";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(headers))
    if (entry.path().extension() == ".h") source += "#include \"" + entry.path().string() + "\"\n";
  std::ofstream(folder() + "/all_headers.cpp") << source;
  const test::RunResult defined =
      run("$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' '" SHARDPROOF_BINARY_DIR
          "/CMakeCache.txt') -std=c++20 -dD -E -fno-math-errno -fno-trapping-math "
          "-I installed/include/shardproof -isystem /usr/include/eigen3 all_headers.cpp -o all_headers.i");
  EXPECT_EQ(defined.exit_code, 0) << defined.out;
  std::vector<std::string> foreign;
  bool is_ours = false;
  int all = 0;
  std::ifstream text(folder() + "/all_headers.i");
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# "))
      is_ours = line.find("/installed/include/shardproof/") != std::string::npos ||
                line.find("\"installed/include/shardproof/") != std::string::npos;
    if (!is_ours || !line.starts_with("#define ")) continue;
    ++all;
    if (!line.starts_with("#define SIM_") && !line.starts_with("#define SHARDPROOF_"))
      foreign.push_back(line);
  }
  EXPECT_GE(all, 4);  // SIM_CHECK among them
  return foreign;
}

/// Compiles a program of a few words against the installed headers, and links it with the installed library.
test::RunResult compiled(const std::string& compiler_and_options) {
  std::ofstream(folder() + "/small.cpp")
      << "#include <sim/cpu/cpu_device.h>\n#include <sim/world/simulate.h>\n"
         "int main() {\n  sim::CpuDevice device;\n"
         "  sim::simulate(sim::world_of(2), device, [](sim::Rank&) {});\n}\n";
  return run(compiler_and_options +
             " -std=c++20 -I installed/include/shardproof small.cpp -o small "
             "$(find installed -name libshardproof-sim.a) -lboost_context -lfmt -lpthread 2>&1");
}

void expect_told(const std::string& compiler_and_options, const std::string& sentence) {
  const test::RunResult result = compiled(compiler_and_options);
  EXPECT_NE(result.exit_code, 0) << compiler_and_options;
  EXPECT_NE(result.out.find(sentence), std::string::npos) << compiler_and_options << "\n" << result.out;
}

void expect_told_of_other_builds() {
  expect_told("g++ -D_GLIBCXX_DEBUG", "shardproof was built without _GLIBCXX_DEBUG: leave it out");
  if (std::string_view(SHARDPROOF_SANITIZERS).find("address") == std::string_view::npos)
    expect_told("g++ -fsanitize=address",
                "shardproof_has_no_address_sanitizer__build_it_with_SHARDPROOF_SANITIZE_address");
  if (run("command -v clang++-14").exit_code == 0)
    expect_told("clang++-14", "shardproof needs std::source_location: compile with GCC 11 or newer");
}

/// Returns the commands of the workflow's steps, in order. A step with `uses` has none.
std::vector<std::string> commands_of_workflow() {
  std::vector<std::string> commands;
  const YAML::Node workflow = YAML::Load(test::file_text("tests/outside/ci/shardproof.yml"));
  for (const YAML::Node& step : workflow["jobs"]["prove"]["steps"]) {
    EXPECT_NE(step["uses"].IsDefined(), step["run"].IsDefined());
    if (step["run"]) commands.push_back(step["run"].as<std::string>());
  }
  return commands;
}

/// Runs the workflow's commands in a copy of the project, as in the image, where shardproof is on PATH.
void run_workflow() {
  const std::string copy = folder() + "/workflow", installed = folder() + "/installed";
  std::filesystem::copy(std::string(SHARDPROOF_SOURCE_DIR) + "/tests/outside", copy,
                        std::filesystem::copy_options::recursive);
  const std::string environment = "export CMAKE_PREFIX_PATH=" + quoted(installed) +
                                  " PATH=" + quoted(installed + "/bin") + ":\"$PATH\"; cd " + quoted(copy) +
                                  " && set -e\n";
  const std::vector<std::string> commands = commands_of_workflow();
  EXPECT_EQ(commands.size(), 3U);
  for (const std::string& command : commands) expect_done(environment + command);
  for (const char* file : {"layers.xml", "layout.xml"})
    EXPECT_TRUE(std::filesystem::exists(copy + "/" + file)) << file;

  // A wrong job is an error at the line of its option.
  expect_done("sed -i 's/global-batch-size 256/global-batch-size 250/' " + quoted(copy + "/ci/job.sh"));
  const test::RunResult wrong = test::run_process(environment + commands[1]);
  EXPECT_NE(wrong.exit_code, 0) << wrong.out;
  EXPECT_NE(wrong.out.find("::error file=ci/job.sh,line=14,title="), std::string::npos) << wrong.out;
}

TEST(Outside, TheImageIsBuiltByTheScript) {
  std::vector<std::string> words;
  for (const std::string& line : test::lines_of(test::file_text("tests/outside/ci/Containerfile")))
    if (!line.starts_with("#")) words.push_back(line.substr(0, line.find(' ')));
  EXPECT_EQ(words, (std::vector<std::string>{"FROM", "RUN", "COPY", "RUN", "WORKDIR", "CMD"}));
}

TEST(Outside, AProjectProvesItsOwnLayerWithTheInstalledTree) {
  ASSERT_NO_FATAL_FAILURE(install());
  const test::RunResult listed = run("installed/bin/shardproof list");
  EXPECT_NE(listed.out.find("installed/share/shardproof/scenarios/published/seed-002-moe.ini"),
            std::string::npos)
      << listed.out;
  for (const char* pair :
       {"--man|man/man1/shardproof.1", "--completion bash|bash-completion/completions/shardproof",
        "--completion zsh|zsh/site-functions/_shardproof"}) {
    const std::string words = pair;
    const std::size_t bar = words.find('|');
    const test::RunResult same = run("installed/bin/shardproof " + words.substr(0, bar) +
                                     " | cmp - installed/share/" + words.substr(bar + 1));
    EXPECT_EQ(same.exit_code, 0) << pair << "\n" << same.out;
  }
  // Without it a frame larger than the guard of a rank's stack would step over it (sim/world/process_end.h).
  const std::string targets = "find installed -name shardproofTargets.cmake -exec cat {} +";
  EXPECT_NE(run(targets).out.find("-fstack-clash-protection"), std::string::npos);
  EXPECT_EQ(foreign_macros(), std::vector<std::string>{});
  expect_told_of_other_builds();
  ASSERT_NO_FATAL_FAILURE(build());
  EXPECT_EQ(run("ninja -C build -t deps | grep -E '/boost/|/mpi[a-z_]*[.]h'").out, "");

  const test::RunResult right = run("build/prove_scaled_linear --runs 50");
  EXPECT_EQ(right.exit_code, 0) << right.out;
  EXPECT_NE(right.out.find("\nverified: 300 runs in 6 rows, seed 0; 0 falsified\n"), std::string::npos)
      << right.out;

  const test::RunResult wrong = run("build/prove_scaled_linear --planted check --property serial");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out;
  EXPECT_NE(wrong.out.find("all_reduce 'scaled_linear.forward' of 1 is missing"), std::string::npos)
      << wrong.out;
  std::smatch reproduce;
  ASSERT_TRUE(std::regex_search(wrong.out, reproduce,
                                std::regex("  reproduce  (build/prove_scaled_linear --planted replay "
                                           "(failing-scaled_linear-serial-[0-9a-f]{8}.ini))\n")))
      << wrong.out;
  EXPECT_EQ(run(reproduce.str(1)).exit_code, 1);
  EXPECT_EQ(run("build/prove_scaled_linear replay " + reproduce.str(2)).exit_code, 0);
  expect_manuals();
  run_workflow();

  if (!test::no_processes().empty()) return;
  const std::string program = quoted(folder() + "/build/prove_scaled_linear");
  const test::RunResult processes = test::run_under_mpi(2, program + " check --backend mpi --runs 20");
  EXPECT_EQ(processes.exit_code, 0) << processes.out;
  EXPECT_NE(processes.out.find("verified: 20 runs in 1 row on 2 processes, seed 0; 0 falsified"),
            std::string::npos)
      << processes.out;
  const test::RunResult planted =
      test::run_under_mpi(2, program + " --planted check --backend mpi --runs 20");
  EXPECT_EQ(planted.exit_code, 1) << planted.out;
  EXPECT_NE(planted.out.find(": on virtual ranks, serial: output("), std::string::npos) << planted.out;
  const test::RunResult alone = test::run_under_mpi(1, program + " check --backend mpi --runs 20");
  EXPECT_EQ(alone.exit_code, 2) << alone.out;
  EXPECT_NE(alone.out.find("refused [one_process]"), std::string::npos) << alone.out;
}

}  // namespace
