// Proves that a command which does another thing than it seems to is told, and that its like which people
// mean is not.

#include "verify/run_arguments/shell_mistakes.h"

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "verify/run_arguments/run_script.h"

namespace {

constexpr const char* kTrains = "\npython x.py --a 1\n";

struct Row {
  std::string command;
  std::string note;  // how it begins; "" for none
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.command; }

class Mistake : public testing::TestWithParam<Row> {};

TEST_P(Mistake, IsTold) {
  const verify::RunArguments run =
      verify::read_run_script(GetParam().command + kTrains, {{"TP", "4"}, {"SIZE", "7b"}});
  const std::string note = run.notes.empty() ? "" : run.notes.front();
  EXPECT_EQ(note.substr(0, GetParam().note.size()), GetParam().note) << note;
  EXPECT_EQ(note.empty(), GetParam().note.empty()) << note;
}

INSTANTIATE_TEST_SUITE_P(
    All, Mistake,
    testing::ValuesIn(std::vector<Row>{
        {"TP = 4", "line 1 runs a command TP, and assigns nothing"},
        {"TP= 4", "line 1 runs a command 4, and assigns TP nothing"},
        {"IFS= read -r A", ""},
        {"export TP= 4", "line 1 declares '4', which is no name"},
        {"export TP =4", "line 1 declares '=4', which is no name"},
        {"export TP=4 PP", ""},
        {"declare -i N=4", ""},
        {"$TP=4", "line 1 assigns TP nothing"},
        {"TP=$TP", ""},
        {"if [$TP -gt 1]; then\nX=1\nfi", "line 1 runs a command '[4', and tests nothing"},
        {"[ \"$SIZE\"=\"7b\" ] && X=1", "line 1 tests one word, which is never empty"},
        {"[[ $SIZE==7b ]] && X=1", "line 1 tests one word, which is never empty"},
        {"[ \"$SIZE\" = 7b ] && X=1", ""},
        {"[ \"a=b\" ] && X=1", ""},
        {"if [ $TP > 1 ]; then\nX=1\nfi", "line 1 compares nothing"},
        {"if [ $TP -gt 1 ] > /dev/null; then\nX=1\nfi", ""},
        {"if [ $TP -gt 1 2> /dev/null ]; then\nX=1\nfi", ""},
        {"if [[ $TP > 1 ]]; then\nX=1\nfi", ""},
        {"echo --num-layers 4 | tee --seq-length 4",
         "line 1 gives --seq-length to a command 'tee' behind a '|'"},
        {"echo | torchrun x.py --num-layers 4 | tee log", ""},
        {"A=(--b 1)\nB=$A", "line 2: $A is the first of the 2 elements of an array alone; ${A[@]} is all"},
        {"A=(--b 1)\nB=${A[0]}", ""},
        {"A=(b 1)\nB=$A", ""},
        {"X=1\r\nY=2\r\nZ=3\r", "the lines end as on Windows"},
        {"X=$'a\\r\\n'", ""},
    }));

TEST(Mistakes, AFunctionIsDefinedBeforeItIsCalled) {
  const verify::RunArguments early = verify::read_run_script("train\ntrain() {\npython x.py --a 1\n}\n", {});
  ASSERT_FALSE(early.notes.empty());
  EXPECT_TRUE(
      early.notes.back().starts_with("line 1 calls train before the function of that name is defined"));
  EXPECT_TRUE(verify::read_run_script("train() {\npython x.py --a 1\n}\ntrain\n", {}).notes.empty());
}

std::string reason_of(const std::string& script) {
  const verify::RunArguments run = verify::read_run_script(script, {});
  return run.unresolved.empty() ? "" : run.unresolved.front().reason;
}

TEST(Mistakes, ANumberThatAShellCannotComputeIsNotAskedFor) {
  EXPECT_EQ(reason_of("F=$((4096 * 2.5))\npython x.py --a $F\n"),
            "a shell computes with whole numbers alone, and stops at a fraction");
  EXPECT_EQ(reason_of("N=08\nM=$((N + 1))\npython x.py --a $M\n"),
            "a shell reads 08, which begins with 0, as a number of base 8, and it is none");
  EXPECT_EQ(reason_of("M=$((N + 1.5))\npython x.py --a $M\n"), "its numbers are not all known");
  EXPECT_EQ(reason_of("N=010\nM=$((N + 1))\npython x.py --a $M\n"), "");
}

}  // namespace
