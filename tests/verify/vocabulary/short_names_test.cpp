// Proves that a short name is the option for which it stands, with every command that reads it.

#include <gtest/gtest.h>
#include <string>

#include "tests/support/run.h"
#include "verify/output/output.h"
#include "verify/vocabulary/command_line.h"

namespace {

TEST(ShortNames, StandForTheOptions) {
  const verify::CommandLine line = verify::parse_command_line(
      {"memory",   "--tp", "4",       "--pp=2", "--cp",  "2",  "--ep",     "8",        "--etp",
       "1",        "--vp", "3",       "--sp",   "--mbs", "2",  "--gbs=64", "--layers", "12",
       "--hidden", "8",    "--heads", "4",      "--seq", "16", "--vocab",  "32"});
  EXPECT_EQ(
      line.settings.as_command_line(),
      " --context-parallel-size 2 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 "
      "--global-batch-size 64 --hidden-size 8 --micro-batch-size 2 --num-attention-heads 4 --num-layers 12 "
      "--pipeline-model-parallel-size 2 --seq-length 16 --sequence-parallel --tensor-model-parallel-size 4 "
      "--virtual-pipeline-model-parallel-size 3 --vocab-size 32");
}

TEST(ShortNames, ReplicasStandForTheWorld) {
  const std::string world = test::run(
                                "groups --world-size 16 --tensor-model-parallel-size 2 "
                                "--pipeline-model-parallel-size 2 --context-parallel-size 2")
                                .out;
  EXPECT_EQ(test::run("groups --tp 2 --pp 2 --cp 2 --dp 2").out, world);
  EXPECT_EQ(test::run("groups --world-size 16 --tp 2 --dp 2").exit_code, verify::kRefused)
      << "the world says how many replicas there are";
  EXPECT_EQ(test::run("shards --param-sizes 70,50 --dp 2").out,
            test::run("shards --param-sizes 70,50 --data-parallel-size 2").out);
}

TEST(ShortNames, AreGivenOnce) {
  EXPECT_NE(test::run("groups --dp 2 --tp 2 --tensor-model-parallel-size 2").err.find("given_twice"),
            std::string::npos);
}

}  // namespace
