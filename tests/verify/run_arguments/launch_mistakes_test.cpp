// Proves that words of a launch which no parser takes are refused, and that values which look like them are
// not.

#include <gtest/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/launch_choice.h"
#include "verify/run_arguments/run_script.h"

namespace {

using test::at;

std::string told(const std::string& script) {
  try {
    verify::read_run_script(script, {});
  } catch (const sim::Error& error) {
    return error.refusal().code + " at " + error.refusal().option + ": " + error.refusal().numbers;
  }
  return "";
}

TEST(LaunchMistakes, ANameAndItsValueInOneWordAreNoArgument) {
  EXPECT_EQ(told("A=(\n'--num-layers 4'\n'--bf16 '\n)\npython x.py \"${A[@]}\"\n"),
            at("arguments_in_one_word", "line 2: '--num-layers 4' is one word, and 1 more word like it"));
  EXPECT_EQ(told("A='--num-layers 4'\npython x.py --bf16 \"$A\"\n"),
            at("arguments_in_one_word", "line 1: '--num-layers 4' is one word"));
  EXPECT_EQ(told("A='--num-layers 4'\npython x.py $A\n"), "");
  EXPECT_EQ(told("python x.py --num-layers 4 --note '--b of c'\n"), "");
  EXPECT_EQ(told("python x.py '--note=a b'\n"), "");
  EXPECT_EQ(told("./entry.sh x.py \"--num-layers 4 --bf16\"\n"), "");
}

TEST(LaunchMistakes, TwoDashesStandBeforeAName) {
  const std::string code = at("argument_without_dashes", "line 1: ");
  EXPECT_EQ(told("python x.py -num-layers 4 --bf16\n"), code + "'-num-layers'");
  EXPECT_EQ(told("python x.py --bf16 -num_layers=4\n"), code + "'-num_layers=4'");
  EXPECT_EQ(told("python x.py num-layers 4 --bf16\n"), code + "'num-layers'");
  EXPECT_EQ(told("python x.py --bf16 -- num-layers 4\n"), code + "'-- num-layers'");
  EXPECT_TRUE(told("python x.py --bf16 \u2014num-layers 4\n").starts_with(code));
  EXPECT_TRUE(told("python x.py --bf16 \u2013\u2013num-layers 4\n").starts_with(code));
  EXPECT_EQ(told("python x.py train --num-layers 4\n"), "");
  EXPECT_EQ(told("python x.py --num-layers 4 --seed -1 -v -- rest\n"), "");
}

TEST(LaunchMistakes, EachSideOfTheScriptHasItsOwnArguments) {
  EXPECT_EQ(told("torchrun --nproc_per_node 2 --num-layers 4 x.py --bf16\n"),
            at("argument_before_script", "line 1: --num-layers before x.py"));
  EXPECT_EQ(told("python -m torch.distributed.run --num-layers=4 x.py --bf16\n"),
            at("argument_before_script", "line 1: --num-layers before x.py"));
  EXPECT_EQ(told("torchrun x.py --num-layers 4 --nproc_per_node 2\n"),
            at("launcher_behind_script", "line 1: --nproc_per_node after x.py"));
  EXPECT_EQ(told("python x.py --num-layers 4 --nproc_per_node 2\n"), "");
  EXPECT_EQ(told("torchrun --nnodes 2 --log-dir l --tee 3 x.py --num-layers 4\n"), "");
}

}  // namespace
