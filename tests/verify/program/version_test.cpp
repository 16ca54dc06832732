// Proves that --version tells the truth: its words for any build, what this program was built with, and the
// commit that the build looks up, in a checkout, in a tarball and inside of another repository.

#include "verify/program/version.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <unistd.h>

#include "tests/house/source_files.h"
#include "tests/support/run.h"

namespace {

namespace fs = std::filesystem;
using verify::Build;

const std::string kVersion = nlohmann::json::parse(test::run("--version --format json").out)["version"];

TEST(ProgramVersion, SaysTheCommitAndWhatIsCompiledIn) {
  const Build build = {{"abcdef123456", false}, {{"MPI", "Open MPI v4.1.4"}, {"NCCL", "", "it needs CUDA"}}};
  EXPECT_EQ(verify::version_text(build), "shardproof " + kVersion +
                                             " (commit abcdef123456, clean)\n  MPI   Open MPI v4.1.4\n"
                                             "  NCCL  not compiled in: it needs CUDA\n");
  EXPECT_EQ(nlohmann::json::parse(verify::version_json(build).dump()),
            nlohmann::json::parse("{\"version\":\"" + kVersion +
                                  "\",\"commit\":\"abcdef123456\",\"has_changes\":false,\"parts\":["
                                  "{\"name\":\"MPI\",\"version\":\"Open MPI v4.1.4\"},"
                                  "{\"name\":\"NCCL\",\"version\":null,\"why_absent\":\"it needs CUDA\"}]}"));
  EXPECT_EQ(verify::version_text(Build{{"abcdef123456", true}, {}}),
            "shardproof " + kVersion + " (commit abcdef123456, with changes)\n");
  EXPECT_EQ(verify::version_text(Build{}), "shardproof " + kVersion + " (unknown commit)\n");
  const auto unknown = nlohmann::json::parse(verify::version_json(Build{}).dump());
  EXPECT_TRUE(unknown.at("commit").is_null() && unknown.at("has_changes").is_null());
  EXPECT_EQ(verify::version_text({}), "shardproof " + kVersion + "\n");
}

TEST(ProgramVersion, IsThatOfTheProject) {
  const std::string project = test::text_of_file(SHARDPROOF_SOURCE_DIR "/CMakeLists.txt");
  EXPECT_NE(project.find("project(shardproof VERSION " + kVersion + " "), std::string::npos);
}

TEST(ProgramVersion, OfTheProgramNamesEveryPart) {
  const std::string program = SHARDPROOF_BINARY_DIR "/shardproof";
  const std::string text = test::run_process(program + " --version").out;
  const std::regex first(
      "shardproof [0-9.]+ \\((commit [0-9a-f]{12}, (clean|with changes)|unknown commit)\\)\n");
  EXPECT_TRUE(std::regex_search(text, first, std::regex_constants::match_continuous)) << text;
  const auto json = nlohmann::json::parse(test::run_process(program + " --version --format json").out);
  EXPECT_EQ(json["version"], kVersion);
  std::vector<std::string> names;
  for (const auto& part : json["parts"]) {
    names.push_back(part["name"]);
    const bool is_there = !part["version"].is_null();
    EXPECT_NE(is_there, part.contains("why_absent")) << part;
    const std::string said = is_there ? part["version"] : part["why_absent"];
    EXPECT_TRUE(std::regex_search(text, std::regex("  " + names.back() + " +(not compiled in: )?\\S")))
        << text;
    EXPECT_NE(text.find(said + "\n"), std::string::npos) << text;
    if (names.back() == "MPI") {
      EXPECT_EQ(is_there, SHARDPROOF_MPIRUN[0] != '\0');
    }
    EXPECT_TRUE(!is_there || std::regex_search(said, std::regex("[0-9]\\.[0-9]"))) << part;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"compiler", "Boost", "fmt", "Eigen", "nlohmann_json", "MPI",
                                             "CUDA", "NCCL"}));
}

/// A folder that is removed with its contents, with what the script of the build writes of its commit.
class Checkout {
 public:
  explicit Checkout(const std::string& name)
      : path_(fs::path(testing::TempDir()) / ("shardproof-" + std::to_string(getpid()) + " " + name)) {
    fs::create_directories(path_ / "sources" / "sim");
    write("CMakeLists.txt", "project(x)\n");
    write("sim/a.cpp", "int a;\n");
    write("sim/README.md", "a\n");
  }
  ~Checkout() { fs::remove_all(path_); }
  Checkout(const Checkout&) = delete;
  Checkout& operator=(const Checkout&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / "sources" / name) << text;
  }
  /// Runs git in the sources, or in the folder around them.
  std::string git(const std::string& words, const std::string& folder = "sources") const {
    const test::RunResult result = test::run_process(
        "cd '" + (path_ / folder).string() +
        "' && env GIT_CONFIG_GLOBAL=/dev/null git -c user.name=a -c user.email=a@b " + words);
    EXPECT_EQ(result.exit_code, 0) << result.out;
    return result.out;
  }
  void commit_all(const std::string& folder = "sources") const {
    git("add -A", folder);
    git("commit -q -m x", folder);
  }
  /// Returns the line of the written source that defines the commit.
  std::string looked_up() const {
    const test::RunResult result = test::run_process(
        "'" SHARDPROOF_CMAKE "' -D 'SOURCE=" + (path_ / "sources").string() + "' -D 'OUT=" + out() +
        "' -D 'DEPFILE=" + depfile() + "' -P '" SHARDPROOF_SOURCE_DIR "/verify/commit.cmake'");
    EXPECT_EQ(result.exit_code, 0) << result.out;
    EXPECT_EQ(result.out, "");
    const std::string text = test::text_of_file(out());
    return text.substr(text.find("return ") + 7);
  }
  std::string watched() const { return test::text_of_file(depfile()); }
  std::string out() const { return (path_ / "commit.cpp").string(); }

 private:
  std::string depfile() const { return (path_ / "commit.d").string(); }
  fs::path path_;
};

constexpr const char* kUnknown = "{.id = \"\", .has_changes = false}; }\n";

bool has_git() { return test::run_process("git --version").exit_code == 0; }

TEST(ProgramVersion, TheCommitIsThatOfTheCheckout) {
  if (!has_git()) GTEST_SKIP() << "no git";
  const Checkout checkout("checkout");
  checkout.git("init -q");
  checkout.commit_all();
  const std::string id = checkout.git("rev-parse --short=12 HEAD").substr(0, 12);
  const std::string clean = "{.id = \"" + id + "\", .has_changes = false}; }\n";
  EXPECT_EQ(checkout.looked_up(), clean);
  for (const char* watched :
       {"sources/sim/a.cpp", "sources/CMakeLists.txt", "sources/.git/HEAD", "sources/.git/logs/HEAD"})
    EXPECT_NE(checkout.watched().find(watched), std::string::npos) << checkout.watched();
  EXPECT_EQ(checkout.watched().find("README"), std::string::npos);
  EXPECT_NE(checkout.watched().find("\\ checkout/sources"), std::string::npos) << "blanks are escaped";

  const auto written = fs::last_write_time(checkout.out()) - std::chrono::hours(1);
  fs::last_write_time(checkout.out(), written);
  checkout.write("sim/README.md", "documents are not the program\n");
  EXPECT_EQ(checkout.looked_up(), clean);
  EXPECT_EQ(fs::last_write_time(checkout.out()), written) << "written again without need";

  checkout.write("sim/a.cpp", "int b;\n");
  EXPECT_EQ(checkout.looked_up(), "{.id = \"" + id + "\", .has_changes = true}; }\n");
  checkout.commit_all();
  EXPECT_NE(checkout.looked_up(), clean);
  EXPECT_NE(checkout.looked_up().find(".has_changes = false"), std::string::npos);
}

TEST(ProgramVersion, TheCommitIsUnknownWithoutARepositoryOfItsOwn) {
  const Checkout tarball("tarball");
  EXPECT_EQ(tarball.looked_up(), kUnknown);
  if (!has_git()) GTEST_SKIP() << "no git";
  const Checkout inside("inside");
  inside.git("init -q", ".");
  inside.commit_all(".");
  EXPECT_EQ(inside.looked_up(), kUnknown) << "the commit of another project";
  const Checkout empty("empty");
  empty.git("init -q");
  EXPECT_EQ(empty.looked_up(), kUnknown) << "no commit yet";
}

}  // namespace
