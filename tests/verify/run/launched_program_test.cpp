// What launchers would start.

#include "verify/run/launched_program.h"

#include <cstdlib>
#include <filesystem>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/verify/run/guest_test.h"

namespace {

using test::has;
using verify::launched_program;
using verify::LaunchedProgram;
using Words = std::vector<std::string>;

/// A torchrun with this beginning, alone on PATH.
class Torchrun {
 public:
  explicit Torchrun(const std::string& beginning) : folder_(temporary_.path()), before_(std::getenv("PATH")) {
    std::filesystem::create_directory(folder_);
    const test::TemporaryFile file("torchrun", beginning);
    std::filesystem::copy_file(file.path(), folder_ / "torchrun",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(folder_ / "torchrun", std::filesystem::perms::owner_all);
    setenv("PATH", ("/no/such/folder:" + folder_.string()).c_str(), 1);
  }
  ~Torchrun() { setenv("PATH", before_.c_str(), 1); }

 private:
  const test::TemporaryFolder temporary_{"-on-path"};
  std::filesystem::path folder_;
  std::string before_;
};

/// Returns "CODE: what was given; what to try".
std::string refused(const auto& work, const std::string& code = "") {
  try {
    work();
    return "none";
  } catch (const sim::Error& error) {
    if (!code.empty()) {
      EXPECT_EQ(error.refusal().code, code);
    }
    return error.refusal().code + ": " + error.refusal().numbers + "; " + error.refusal().hint;
  }
}

/// What a launcher of torch says behind `python -m`, with --ranks or without.
verify::RankCounts counts(Words options, std::optional<std::int64_t> given = {}) {
  Words words = {"python3", "-m", "torch.distributed.run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"-m", "train"});
  return verify::rank_counts(launched_program(words), given);
}

TEST(LaunchedProgram, TheProgramStandsBehindTheOptions) {
  const LaunchedProgram launched = launched_program(
      {"python3", "-I", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--log-dir",
       "logs", "-t3", "--rdzv-id=a", "--max_restarts", "0", "--module", "my.train", "--nnodes", "7"});
  EXPECT_EQ(launched.python.interpreter, Words({"python3"}));
  EXPECT_EQ(launched.python.program, Words({"-m", "my.train", "--nnodes", "7"}));
  EXPECT_FALSE(launched.launched->gives_local_rank);
  EXPECT_EQ(verify::rank_counts(launched, {}).ranks, 2);
}

TEST(LaunchedProgram, RanksAreNodesTimesRanksOfANode) {
  EXPECT_EQ(counts({}).ranks, 1);
  EXPECT_EQ(counts({"--nnodes=3"}).ranks, 3);
  EXPECT_EQ(counts({"--nnodes=3"}).ranks_of_node, 1);
  EXPECT_EQ(counts({"--nn", "2", "--nproc-per", "4"}).ranks, 8);
  EXPECT_EQ(counts({"--nnodes", "2", "--nproc_per_node", "4"}).ranks_of_node, 4);
  EXPECT_EQ(counts({"--nnodes", "2", "--nproc_per_node", "4"}, 8).ranks, 8);
}

TEST(LaunchedProgram, OtherRanksThanTheLauncherStartsAreRefused) {
  const auto refusal = [](const Words& options, std::optional<std::int64_t> given) {
    return refused([&] { counts(options, given); }, "run_ranks");
  };
  EXPECT_EQ(refusal({"--nproc-per-node", "4"}, 2),
            "run_ranks: 2, and torch.distributed.run starts 4; --ranks 4");
  EXPECT_TRUE(has(refusal({"--nnodes", "1:4"}, {}), "run_ranks: '--nnodes=1:4' of torch.distributed.run"));
  EXPECT_TRUE(has(refusal({"--nproc-per-node", "gpu"}, {}), "--ranks N before '--'"));
  EXPECT_TRUE(has(refusal({"--nnodes", "1:4", "--nproc-per-node", "4"}, 6), "starts 4 on each node"));
  EXPECT_TRUE(has(refusal({"--nnodes", "99999", "--nproc-per-node", "99999"}, {}), "'9999800001'"));
  EXPECT_EQ(counts({"--nnodes", "1:4", "--nproc-per-node", "4"}, 8).ranks_of_node, 4);
  EXPECT_EQ(counts({"--nproc-per-node", "auto"}, 8).ranks_of_node, 8);
}

TEST(LaunchedProgram, TheInterpreterOfTorchrunIsThatOfItsFirstLine) {
  for (const char* beginning : {"#!/opt/venv/bin/python3.12\nimport re\n", "#! /opt/venv/bin/python3.12 -E\n",
                                "#!/usr/bin/env /opt/venv/bin/python3.12\n",
                                "#!/bin/sh\n'''exec' \"/opt/venv/bin/python3.12\" \"$0\" \"$@\"\n' '''\n"}) {
    const Torchrun torchrun(beginning);
    const LaunchedProgram launched = launched_program({"torchrun", "--nnodes", "2", "-m", "train"});
    EXPECT_EQ(launched.python.interpreter, Words({"/opt/venv/bin/python3.12"})) << beginning;
    EXPECT_EQ(verify::rank_counts(launched, {}).ranks, 2);
  }
  const Torchrun torchrun("#!/usr/bin/env bash\n");
  const auto read = [](const char* word) { return [=] { launched_program({word, "-m", "train"}); }; };
  EXPECT_TRUE(has(refused(read("torchrun")), "python -m torch.distributed.run"));
  EXPECT_TRUE(has(refused(read("/no/torchrun")), "run_program_not_started: /no/torchrun"));
}

TEST(LaunchedProgram, ACommandWithoutPythonMayBeOneOfPython) {
  const auto read = [](const char* program) {
    return launched_program(
        {"python3", "-m", "torch.distributed.run", "--no-python", program, "-um", "train"});
  };
  EXPECT_EQ(read("python3.11").python.interpreter, Words({"python3.11", "-u"}));
  EXPECT_TRUE(has(refused([&] { read("./train"); }), "run_program_missing: ./train is no interpreter"));
  EXPECT_TRUE(has(refused([] {
                    launched_program({"python3", "-m", "torch.distributed.run", "-t"});
                  }),
                  "python3 gets no program"));
}

class RunLaunched : public test::WithPython {};

constexpr const char* kVariables = R"(
import os, sys
print(*[os.environ[n] for n in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")], sys.argv[1:])
)";

TEST_F(RunLaunched, RanksHaveTheVariablesOfTheirNodes) {
  const test::TemporaryFile file("variables.py", kVariables);
  const test::RunResult run = test::run(
      "run -- python3 -m torch.distributed.run --nnodes 2 --nproc-per-node 2 " + file.path() + " a");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "1| 1 1 2 0 2 ['a']\n")) << run.out;
  EXPECT_TRUE(has(run.out, "2| 2 0 2 1 2 ['a']\n")) << run.out;
}

TEST_F(RunLaunched, OnlyALauncherSetsTheVariablesOfTorchrun) {
  const test::TemporaryFile file("elastic.py",
                                 "import os\nprint(*[os.environ.get('TORCHELASTIC_' + n) for n in ('RUN_ID', "
                                 "'RESTART_COUNT', 'MAX_RESTARTS')], os.environ['MASTER_PORT'])\n");
  const std::string launch = "run -- python3 -m torch.distributed.run --master_port=12345 ";
  EXPECT_TRUE(has(test::run(launch + file.path()).out, "0| none 0 0 12345\n"));
  EXPECT_TRUE(
      has(test::run(launch + "--max-restarts 3 --rdzv_id job " + file.path()).out, "0| job 0 3 12345\n"));
  EXPECT_TRUE(has(test::run("run --ranks 1 -- python3 " + file.path()).out, "0| None None None "));
}

TEST_F(RunLaunched, TheOldLauncherGivesTheLocalRank) {
  const test::TemporaryFile file("variables.py", kVariables);
  const std::string launch = "run -- python3 -m torch.distributed.launch --nnodes 2 --nproc_per_node 1 ";
  const test::RunResult run = test::run(launch + file.path() + " a");
  EXPECT_TRUE(has(run.out, "1| 1 0 1 1 2 ['--local-rank=0', 'a']\n")) << run.out << run.err;
  EXPECT_TRUE(has(test::run(launch + "--use-env " + file.path()).out, "1| 1 0 1 1 2 []\n"));
}

}  // namespace
