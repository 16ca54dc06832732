// What run writes in addition to its result: dumps, the trace, the page, JUnit XML, and its progress.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/temporary_folder.h"
#include "tests/verify/run/guest_test.h"
#include "verify/program/program.h"

namespace {

using test::has;
using test::run_of;

/// Rank 1 leaves out a call in which the others wait.
constexpr const char* kHangs = R"(
call('barrier', 7)
if rank != 1:
    call('barrier', 9)
call('all_reduce', 11, output=['f32', link.memory.take(16), 4])
)";

class RunFiles : public test::WithPython {
 protected:
  void SetUp() override {
    WithPython::SetUp();
    std::filesystem::create_directory(folder_);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }

  const test::TemporaryFolder temporary_{"-run-files"};
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(RunFiles, InspectNamesTheSameRankAndLinesFromTheDumps) {
  for (const std::string format : {"pickle", "json"}) {
    const test::RunResult run =
        run_of(kHangs, "--ranks 4 --flight-recorder " + path(format) + " --flight-recorder-format " + format);
    EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
    EXPECT_TRUE(has(run.out, "rank 1     arrived at all_reduce(sum) 4 x f32")) << run.out;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path(format)), {}), 4);
    const test::RunResult inspect = test::run("inspect " + path(format));
    EXPECT_EQ(inspect.exit_code, 1) << inspect.out << inspect.err;
    EXPECT_TRUE(has(inspect.out, "Look at rank 1")) << inspect.out;
    EXPECT_TRUE(has(inspect.out, "train.py:11")) << inspect.out;
    EXPECT_TRUE(has(inspect.out, "train.py:9")) << inspect.out;
  }
}

TEST_F(RunFiles, GroupsOfTheProgramKeepTheirNamesInTheDumps) {
  const test::RunResult run =
      run_of(R"(
for members in ([0, 1], [2, 3]):
    made = link.ask({"do": "new_group", "name": "dp", "members": members, "site": ["main", "train.py", 3]})
    if made["group"] is not None:
        call('barrier', 5, group=made["group"])
)",
             "--ranks 4 --flight-recorder-format json --flight-recorder " + path("dumps"));
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto dump = nlohmann::json::parse(text("dumps/nccl_trace_rank_3.json"));
  EXPECT_TRUE(has(dump["pg_config"].dump(), "[2, 3]")) << dump["pg_config"];
  EXPECT_TRUE(has(dump["pg_config"].dump(), "\"dp\"")) << dump["pg_config"];
}

TEST_F(RunFiles, ThePageJUnitAndTheTraceSayWhatWasFound) {
  const test::RunResult run = run_of(kHangs, "--ranks 2 --report " + path("page.html") + " --junit " +
                                                 path("junit.xml") + " --trace " + path("trace.json"));
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  for (const std::string& written : {text("page.html"), text("junit.xml")}) {
    EXPECT_TRUE(has(written, "shardproof run")) << written;
    EXPECT_TRUE(has(written, "collective_type_mismatch")) << written;
    EXPECT_TRUE(has(written, "train.py:11")) << written;
    EXPECT_FALSE(has(written, "shardproof replay")) << written;
  }
  EXPECT_TRUE(has(text("junit.xml"), "name=\"calls\"")) << text("junit.xml");
  const auto trace = nlohmann::json::parse(text("trace.json"));
  EXPECT_EQ(trace["otherData"]["scenarios"][0]["ranks_written"], 2);
  EXPECT_TRUE(has(trace.dump(), "train.py:9")) << trace;
}

TEST_F(RunFiles, AllIsVerifiedInTheFilesOfARunThatIs) {
  const test::RunResult run =
      run_of("call('barrier', 7)\n", "--ranks 2 --report " + path("page.html") + " --junit " +
                                         path("junit.xml") + " --plant main:skip@call=9");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(text("page.html"), "2 ranks made 2 calls; all ranks ended")) << text("page.html");
  EXPECT_TRUE(has(text("junit.xml"), "name=\"planted faults\"")) << text("junit.xml");
  EXPECT_TRUE(has(text("junit.xml"), "planted_fault")) << text("junit.xml");
  EXPECT_TRUE(has(text("junit.xml"), "no call had the planted fault")) << text("junit.xml");
}

TEST_F(RunFiles, TheProgramIsNotWrittenOver) {
  const test::TemporaryFile file("train.py", "");
  const test::RunResult run =
      test::run("run --ranks 1 --report " + file.path() + " -- python3 " + file.path());
  EXPECT_TRUE(has(run.err, "refused [report_file]")) << run.err;
}

TEST_F(RunFiles, ATerminalShowsTheCallsSoFar) {
  const std::string program =
      "for _ in range(20):\n    call('barrier', 7)\nimport time\ntime.sleep(1)\nprint('x')\n";
  const test::TemporaryFile file("train.py", test::kGuestBegin + program);
  std::ostringstream out, err;
  EXPECT_EQ(verify::run_program({"run", "--ranks", "2", "--", "python3", file.path()},
                                {.out = out, .err = err, .progress = true}),
            0);
  EXPECT_TRUE(has(err.str(), "\r\x1b[K40 calls, ")) << err.str();
  EXPECT_TRUE(has(err.str(), " calls/s")) << err.str();
  EXPECT_TRUE(err.str().ends_with("\r\x1b[K")) << "the line is removed at the end";
  EXPECT_TRUE(has(out.str(), "0| x\n")) << out.str();
}

}  // namespace
