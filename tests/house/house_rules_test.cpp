// The house rules hold for the source tree, and each rule finds a violation that is planted for it.

#include "tests/house/house_rules.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <utility>

#include "tests/house/complexity.h"
#include "tests/house/included_names.h"
#include "tests/house/ratchet.h"

namespace {

using test::SourceFile;
using Lines = std::vector<std::string>;

std::string contents(const std::string& path) {
  std::string text = test::text_of_file(path);
  EXPECT_NE(text, "") << path;
  return text;
}

std::vector<SourceFile> files_under(const std::vector<std::string>& folders, const Lines& endings) {
  std::vector<SourceFile> files = test::files_under(SHARDPROOF_SOURCE_DIR, folders, endings);
  EXPECT_FALSE(files.empty());
  return files;
}

std::vector<SourceFile> sources() {
  std::vector<SourceFile> files = test::sources_of(SHARDPROOF_SOURCE_DIR);
  EXPECT_FALSE(files.empty());
  return files;
}

std::string root_file(const std::string& name) {
  return contents(std::string(SHARDPROOF_SOURCE_DIR) + "/" + name);
}

TEST(HouseRules, IncludesFollowTheArrows) {
  EXPECT_EQ(test::include_direction(sources()), Lines{});
  EXPECT_EQ(test::include_direction({{"sim/base/a.h", "#include \"sim/layout/layout.h\"\n"}}).size(), 1U);
  EXPECT_EQ(
      test::include_direction({{"sim/layout/a.cpp", "#include \"verify/vocabulary/settings.h\"\n"}}).size(),
      1U);
  EXPECT_EQ(test::include_direction({{"sim/layout/a.cpp", "#include <Eigen/Dense>\n"}}).size(), 1U);
  EXPECT_EQ(
      test::include_direction({{"verify/reference/a.cpp", "#include \"sim/layout/layout.h\"\n"}}).size(), 1U);
  EXPECT_EQ(
      test::include_direction({{"sim/layout/a.cpp", "  #include <verify/vocabulary/settings.h>\n"}}).size(),
      1U);
  EXPECT_EQ(test::include_direction({{"sim/mpi/a.cpp", "#include \"sim/world/finding.h\"\n"}}).size(), 1U);
  EXPECT_EQ(test::include_direction({{"sim/unknown/a.h", ""}}).size(), 1U);
  EXPECT_EQ(test::include_direction({{"gpu/cuda/a.cu", "#include \"sim/tensor/tensor.h\"\n"}}).size(), 1U);
  EXPECT_EQ(test::include_direction({{"sim/tensor/a.cpp", "#include \"gpu/device/kernels.h\"\n"}}).size(),
            1U);
  EXPECT_EQ(test::include_direction({{"sim/parallel/a.cpp", "#include \"sim/base/field.h\"\n"}}).size(), 1U);
  EXPECT_EQ(test::include_direction({{"sim/pipeline/a.cpp", "#include \"sim/parallel/mlp.h\"\n"}}).size(),
            1U);
  EXPECT_EQ(test::include_direction({{"sim/pipeline/a.cpp", "#include \"sim/base/bfloat16.h\"\n"}}).size(),
            1U);
  EXPECT_EQ(test::include_direction({{"verify/options/a.cpp", "#include \"verify/checks/check_result.h\"\n"}})
                .size(),
            1U);
  EXPECT_EQ(test::include_direction({{"verify/new_room/a.cpp", ""}}).size(), 1U);
  EXPECT_EQ(
      test::include_direction({{"sim/model/a.cpp", "#include \"sim/tensor/scalar_arithmetic.h\"\n"}}).size(),
      1U);
}

TEST(HouseRules, SourcesIncludeWhatTheyName) {
  EXPECT_EQ(test::names_not_included(sources()), Lines{});
  const auto named = [](const std::string& declared, const std::string& used) {
    return test::names_not_included({{"sim/a.h", "namespace sim {\n" + declared + "}\n"},
                                     {"sim/b.h", "#include \"sim/a.h\"\nnamespace sim {\n}\n"},
                                     {"sim/user.cpp", used}});
  };
  const Lines missing = {"sim/user.cpp: it names made_up and does not include sim/a.h"};
  EXPECT_EQ(named("struct made_up {\n};\n", "sim::made_up one;\n"), missing);
  EXPECT_EQ(named("enum class made_up { a };\n", "auto one = made_up::a;\n"), missing);
  EXPECT_EQ(named("enum plain : int { first = 2, made_up };\n", "int one = made_up;\n"), missing);
  EXPECT_EQ(named("using made_up = int;\n", "made_up one;\n"), missing);
  EXPECT_EQ(named("inline constexpr std::size_t made_up = 2;\n", "int one = made_up;\n"), missing);
  EXPECT_EQ(named("int made_up(int x);\n", "int one = made_up(2);\n"), missing);
  EXPECT_EQ(named("template <class T>\n[[nodiscard]] T made_up(T x);\n", "int one = made_up<int>(2);\n"),
            missing);
  EXPECT_EQ(named("#define made_up(x) x\n", "int one = made_up(2);\n"), missing);
  EXPECT_EQ(named("namespace made_up {\nint f();\n}\n", "int one = made_up::f();\n"), missing);
  const std::string function = "int made_up(int x);\n";
  EXPECT_EQ(named(function, "#include \"sim/a.h\"\nint one = made_up(2);\n"), Lines{});
  EXPECT_EQ(named(function, "#include \"sim/b.h\"\nint one = made_up(2);\n"), Lines{});
  EXPECT_EQ(named(function, "int one = object.made_up(2) + other::made_up(2);  // made_up(2)\n"), Lines{});
  EXPECT_EQ(named(function, "int made_up(int x) { return x; }\nint one = made_up(2);\n"), Lines{});
  EXPECT_EQ(named(function, "bool one = x && made_up(2);\n"), missing);
  EXPECT_EQ(named(function, "int one() { return 3 * made_up(2); }\n"), missing);
  EXPECT_EQ(named(function, "const std::vector<A*>& made_up(int x);\nint one = made_up(2)[0];\n"), Lines{});
  EXPECT_EQ(named(function, "const char* one = \"made_up(2)\";\n"), Lines{});
  EXPECT_EQ(
      test::names_not_included({{"sim/a.h", ""}, {"sim/b.h", ""}, {"sim/a.cpp", "#include \"sim/b.h\"\n"}}),
      Lines{"sim/a.cpp: its first include is not sim/a.h"});
}

TEST(HouseRules, NoBannedNames) {
  EXPECT_EQ(test::banned_names(sources()), Lines{});
  EXPECT_EQ(test::banned_names({{"tests/a.cpp", "std::random_device seed;"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"verify/cases/a.cpp", "sim::buffer_layout(parameters, config);"}}).size(),
            1U);
  EXPECT_EQ(test::banned_names({{"verify/checks/a.cpp", "sim::buffer_layout(parameters, config);"}}).size(),
            0U);
  EXPECT_EQ(test::banned_names({{"verify/a.cpp", "EXPECT_NEAR(a, b, c);"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"verify/a.cpp", "if (error < 1e-6) return;"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"verify/a.cpp", "if (error < 0.001) return;"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"sim/a.cpp", "std::chrono::steady_clock::now()"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"sim/a.cpp", "const auto now = std::time(nullptr);"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"sim/meeting/rendezvous.cpp", "std::chrono::steady_clock::now()"}}).size(),
            1U);
  EXPECT_EQ(test::banned_names({{"sim/base/deadline.h", "const auto now = std::time(nullptr);"}}).size(), 1U);
  EXPECT_EQ(test::banned_names({{"sim/base/deadline.h", "std::chrono::steady_clock::now()"}}), Lines{});
  EXPECT_EQ(test::banned_names({{"verify/a.cpp", "std::chrono::steady_clock::now()"}}), Lines{});
  EXPECT_EQ(test::banned_names({{"sim/a.cpp", "std::unordered_map<int, int> m;"}}).size(), 1U);
}

TEST(HouseRules, HeadersAreManuals) {
  EXPECT_EQ(test::headers_without_manual(sources()), Lines{});
  EXPECT_EQ(test::headers_without_manual({{"sim/a.h", "#pragma once\n\nstruct A {};\n"}}).size(), 1U);
}

TEST(HouseRules, NoTypeIsDefinedTwice) {
  EXPECT_EQ(test::types_defined_twice(sources()), Lines{});
  const auto twice = [](const std::string& one, const std::string& other) {
    return test::types_defined_twice({{"sim/a.h", one}, {"sim/b.cpp", other}});
  };
  const std::string message =
      "namespace sim {\n\nstruct Message {\n  int bytes;\n};\n\n}  // namespace sim\n";
  EXPECT_EQ(twice(message, message), (Lines{"sim/b.cpp: sim/a.h defines sim::Message, too"}));
  EXPECT_EQ(twice(message, "namespace sim {\nclass Message final : public Base {\n};\n}  // namespace sim\n")
                .size(),
            1U);
  EXPECT_EQ(twice(message, "namespace sim {\nstruct Message;\n}  // namespace sim\n"), Lines{});
  EXPECT_EQ(twice(message, "namespace verify {\nstruct Message {\n};\n}  // namespace verify\n"), Lines{});
  EXPECT_EQ(
      twice(
          message,
          "namespace sim {\n\nnamespace {\n\nstruct Message {\n};\n\n}  // namespace\n}  // namespace sim\n"),
      Lines{});
}

/// Returns the sources of tests/outside as compile_commands.json would name them.
/// tests/verify/outside_test.cpp builds them as a project of its own.
std::string outside_commands() {
  std::istringstream words(root_file("tests/outside/CMakeLists.txt"));
  std::string commands;
  for (std::string word; words >> word;) {
    if (word.ends_with(')')) word.pop_back();
    if (word.ends_with(".cpp")) commands += "/tests/outside/" + word + "\"\n";
  }
  return commands;
}

/// Returns the files in which CMake includes several sources of a target, one line a source
/// (SHARDPROOF_UNITY).
std::string sources_compiled_together() {
  std::string sources;
  for (const auto& file : std::filesystem::recursive_directory_iterator(SHARDPROOF_BINARY_DIR)) {
    if (file.path().parent_path().filename() == "Unity" && file.path().extension() == ".cxx") {
      sources += contents(file.path());
    }
  }
  return sources;
}

TEST(HouseRules, EveryFileIsBuilt) {
  const std::string commands = contents(std::string(SHARDPROOF_BINARY_DIR) + "/compile_commands.json") +
                               sources_compiled_together() + outside_commands() +
                               contents(std::string(SHARDPROOF_BINARY_DIR) + "/not_built.txt");
  EXPECT_EQ(test::unbuilt_files(sources(), commands), Lines{});
  EXPECT_EQ(test::unbuilt_files({{"sim/forgotten.cpp", ""}, {"sim/forgotten.h", ""}}, commands).size(), 2U);
  EXPECT_EQ(test::unbuilt_files({{"tests/outside/forgotten.cpp", ""}}, commands).size(), 1U);
  EXPECT_EQ(test::unbuilt_files({{"tests/lint/forgotten.cpp", ""}}, commands).size(), 1U);
}

TEST(HouseRules, EveryScenarioHasASourceAndAFolder) {
  EXPECT_EQ(test::scenario_rules(files_under({"scenarios"}, {})), Lines{});
  EXPECT_EQ(test::scenario_rules({{"scenarios/forgotten.ini", "# Source: nowhere\n"}}).size(), 1U);
  EXPECT_EQ(test::scenario_rules({{"scenarios/README.md", "# scenarios\n"}}), Lines{});
  EXPECT_EQ(test::scenario_rules({{"scenarios/forgotten.md", "# forgotten\n"}}).size(), 1U);
  EXPECT_EQ(test::scenario_rules({{"scenarios/published/a.ini", "world-size = 16\n"}}).size(), 1U);
}

TEST(HouseRules, LinesHaveAtMost110Columns) {
  EXPECT_EQ(test::long_lines(files_under({"sim", "gpu", "verify"}, {".h", ".cpp", ".cu"})), Lines{});
  EXPECT_EQ(test::long_lines({{"sim/a.cpp", std::string(111, 'x') + "\n"}}).size(), 1U);
  EXPECT_EQ(test::long_lines({{"sim/a.cpp", std::string(110, 'x') + "\n"}}), Lines{});
}

/// Returns all .md files of the checkout.
std::vector<SourceFile> manuals() {
  std::vector<SourceFile> files = files_under({"sim", "gpu", "verify", "scenarios", "tests"}, {".md"});
  files.push_back({"README.md", root_file("README.md")});
  return files;
}

/// Returns all files and folders of the checkout that a manual may speak of.
std::set<std::string> all_paths() {
  const std::filesystem::path root = SHARDPROOF_SOURCE_DIR;
  std::set<std::string> paths = {".ci/run", "CMakeLists.txt", "README.md", "shardproof"};
  for (const char* folder : {"sim", "gpu", "verify", "scenarios", "tests"}) {
    paths.insert(folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      paths.insert(std::filesystem::relative(entry.path(), root).string());
  }
  return paths;
}

TEST(HouseRules, ManualsAreShortNarrowAndLeadSomewhere) {
  EXPECT_EQ(test::manual_rules(manuals(), all_paths()), Lines{});
  const std::string wide(111, 'x');
  const auto violations = [](const std::string& path, const std::string& text) {
    return test::manual_rules({{path, text}}, {"sim/world/README.md", "sim/world"}).size();
  };
  EXPECT_EQ(violations("sim/README.md", wide + "\n"), 1U);
  EXPECT_EQ(violations("sim/README.md", "```sh\n" + wide + "\n```\n"), 1U);
  EXPECT_EQ(violations("sim/README.md", "```console\n$ " + wide + "\n```\n"), 1U);
  EXPECT_EQ(violations("sim/README.md", "```console\n$ a\n" + wide + "\n```\n" + wide + "\n"), 1U);
  EXPECT_EQ(violations("sim/README.md", "```console\n$ a\n" + wide + "\n```\n"), 0U);
  std::string long_door;
  for (int line = 0; line <= 200; ++line) long_door += "x\n";
  EXPECT_EQ(violations("README.md", long_door), 1U);
  EXPECT_EQ(violations("README.md", long_door.substr(2)), 0U);
  EXPECT_EQ(violations("sim/README.md", long_door), 0U);
  EXPECT_EQ(violations("README.md", "[world](sim/word/README.md)\n"), 1U);
  EXPECT_EQ(violations("README.md", "[world](sim/world/README.md), [there](https://example.org)\n"), 0U);
  EXPECT_EQ(violations("verify/README.md", "[world](sim/world/README.md)\n"), 1U);
  EXPECT_EQ(violations("verify/README.md", "[world](../sim/world/README.md#the-room)\n"), 0U);
  EXPECT_EQ(violations("README.md", "It is in `sim/word`.\n"), 1U);
  EXPECT_EQ(violations("README.md", "It is in `sim/world`, as `sim/...` are.\n"), 0U);
}

TEST(HouseRules, ReadmeNamesEveryPackage) {
  EXPECT_EQ(test::unnamed_packages(root_file("shardproof"), root_file("README.md")), Lines{});
  EXPECT_EQ(test::unnamed_packages("packages=(g++ cmake\n  libfmt-dev)\n", "`cmake`, `libfmt-dev`\n").size(),
            1U);
}

TEST(HouseRules, RoomsOnlyBecomeSmaller) {
  const std::string table = root_file("tests/house/ratchet.tsv");
  EXPECT_EQ(test::above_or_below_ratchet(sources(), table), Lines{})
      << "The rows of tests/house/ratchet.tsv as the sources are; a number that rises needs a reason in its "
         "last "
         "column:\n"
      << test::ratchet_rows(sources(), table);
}

/// Returns what the ratchet says of a room of 100 lines with two functions and two floors.
Lines ratcheted(const std::string& row) {
  std::string body = "int f(int x) {\n";
  for (int i = 0; i < 15; ++i) body += "if (x == 0) return 1;\n";
  const std::string upper = "#include \"sim/base/a.h\"\n" + body + "}\n" + std::string(80, '\n');
  const std::string lower = "#include \"sim/base/b.h\"\nint g();\n";
  return test::above_or_below_ratchet({{"sim/base/a.h", lower}, {"sim/base/b.cpp", upper}},
                                      "room\tlines\tcomplex\tfloors\twhy\n" + row);
}

TEST(HouseRules, TheRatchetTurnsOneWay) {
  EXPECT_EQ(ratcheted("sim/base\t100\t1\t1\t\n"), Lines{});  // a and b include each other
  EXPECT_EQ(ratcheted("sim/base\t120\t1\t1\ta reason\n"), Lines{});
  EXPECT_EQ(ratcheted("sim/base\t99\t1\t1\t\n"), Lines{"sim/base: 100 lines; its row allows 99"});
  EXPECT_EQ(ratcheted("sim/base\t121\t1\t1\t\n"),
            Lines{"sim/base: 100 lines; lower its row, which still has 121"});
  EXPECT_EQ(ratcheted("sim/base\t100\t0\t1\t\n"),
            Lines{"sim/base: 1 functions with a complexity above 15; its row allows 0"});
  EXPECT_EQ(ratcheted("sim/base\t100\t2\t1\t\n").size(), 1U);
  EXPECT_EQ(ratcheted("sim/base\t100\t1\t0\t\n"), Lines{"sim/base: 1 floors; its row allows 0"});
  EXPECT_EQ(ratcheted("sim/base\t100\t1\t2\t\n").size(), 1U);
  EXPECT_EQ(ratcheted(""), Lines{"sim/base: it has no row in ratchet.tsv"});
  EXPECT_EQ(ratcheted("sim/base\t100\t1\t1\t\nsim/gone\t1\t0\t1\t\n"),
            Lines{"sim/gone: it has a row in ratchet.tsv, and no file"});
  const std::string above_a_circle = "#include \"sim/base/b.h\"\n",
                    in_a_circle = "#include \"sim/base/c.h\"\n";
  EXPECT_EQ(test::ratchet_rows({{"sim/base/a.cpp", above_a_circle},
                                {"sim/base/b.h", in_a_circle},
                                {"sim/base/c.h", above_a_circle}},
                               ""),
            "room\tlines\tcomplex\tfloors\twhy\nsim/base\t3\t0\t2\t\n");
  const std::string table = "room\tlines\tcomplex\tfloors\twhy\nsim/base\t2\t0\t1\ta reason\n";
  EXPECT_EQ(
      test::ratchet_rows({{"sim/base/c.h", "#include \"sim/base/a.h\"\n"}, {"sim/base/a.h", "\n"}}, table),
      "room\tlines\tcomplex\tfloors\twhy\nsim/base\t2\t0\t2\ta reason\n");
}

TEST(HouseRules, ComplexityIsThatOfBodies) {
  const auto complexity = [](const std::string& source) {
    std::string text;
    for (const auto& [name, branches] : test::complexities_of(source))
      text += name + " " + std::to_string(branches) + " ";
    return text;
  };
  EXPECT_EQ(complexity("namespace a {\nint f(int x) { return x ? 1 : 2; }\n}\n"), "f 2 ");
  EXPECT_EQ(
      complexity("struct A : B {\n A() : b_{1}, c_(2) { if (b_ && c_ || d_) for (;;) while (1) {} }\n};\n"),
      "A 6 ");
  EXPECT_EQ(complexity("void f(A&& a) { switch (a) { case 1: case 2: try {} catch (...) {} } }\n"), "f 4 ");
  EXPECT_EQ(complexity("bool A::operator()(int x) const { return x && x; }\nint g() { return 0; }\n"),
            "operator 2 g 1 ");
  EXPECT_EQ(complexity("constexpr int kA[] = {f(1) ? 1 : 2};\nclass A {\n public:\n  int b{2};\n  int f() { "
                       "return 1; }\n};\n"),
            "f 1 ");
  EXPECT_EQ(complexity("int f() { return g(\"if (a && b)\"); }  // if (c)\n"), "f 1 ");
}

TEST(HouseRules, RoomsSeeOnlyRoomsThatStandBeforeThem) { EXPECT_EQ(test::rooms_out_of_order(), Lines{}); }

/// The words of the last column of a table, in the quotes that C++ has.
std::string quoted_last_column(const std::string& table) {
  std::string quoted;
  for (const std::string& line : test::lines_with(table, {"\t"})) {
    std::istringstream words(line.substr(line.rfind('\t') + 1));
    for (std::string word; words >> word;) quoted += "\"" + word + "\" ";
  }
  return quoted;
}

TEST(HouseRules, EveryRefusalIsProvoked) {
  // Refusals of the program are provoked through the program, Megatron's rules through tables, and those
  // of a project's cases through prove(). Refusals of rank programs are provoked in the tests of their rooms.
  std::string refusal_tests = root_file("tests/verify/program/refusals_test.cpp") +
                              root_file("tests/verify/megatron_rules/megatron_validation_test.cpp") +
                              root_file("tests/verify/megatron_rules/run_rules_test.cpp") +
                              root_file("tests/verify/cases/case_rules_test.cpp") +
                              root_file("tests/verify/full_size/full_size_step_test.cpp") +
                              root_file("tests/verify/program/groups_against_test.cpp") +
                              root_file("tests/verify/program/run_from_test.cpp") +
                              root_file("tests/verify/program/shards_json_test.cpp") +
                              root_file("tests/verify/exam/fault_catalogue_test.cpp") +
                              root_file("verify/checks/planted_programs.cpp");
  for (const SourceFile& file :
       files_under({"tests/sim", "tests/gpu", "tests/verify/sweep", "tests/verify/recordings",
                    "tests/verify/run", "tests/verify/run_arguments"},
                   {".cpp"}))
    refusal_tests += file.text;
  for (const SourceFile& file : files_under({"tests/verify/megatron_rules"}, {".tsv"}))
    refusal_tests += quoted_last_column(file.text);
  std::vector<SourceFile> files = sources();
  for (SourceFile& table : files_under({"verify"}, {".tsv"})) files.push_back(std::move(table));
  EXPECT_EQ(test::unprovoked_refusals(files, refusal_tests), Lines{});
  EXPECT_EQ(
      test::unprovoked_refusals({{"verify/a.tsv", "# A.\ncode\trule\nnever_8_seen\tb\n"}}, refusal_tests),
      Lines{"never_8_seen: no refusal test provokes this code"});
  EXPECT_EQ(
      test::unprovoked_refusals({{"sim/a.cpp", "refuse({.code = \"never_seen\","}}, refusal_tests).size(),
      1U);
  EXPECT_EQ(
      test::unprovoked_refusals(
          {{"sim/a.h", "#pragma once\n\n/// A.\n///\n/// Errors  not_this, size_range\n"}}, refusal_tests)
          .size(),
      1U);
}

}  // namespace
