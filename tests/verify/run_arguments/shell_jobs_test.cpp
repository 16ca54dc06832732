// Proves that what a shell of its own runs changes no variable of the script: the commands of a pipeline, and
// those before an `&`.

#include <gtest/gtest.h>
#include <string>

#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_script.h"
#include "verify/run_arguments/shell_words.h"

namespace {

std::string read(const std::string& script) {
  return test::text_of(verify::read_run_script(script + "\npython x.py --a $A\n", {}));
}

TEST(ShellJobs, WhatACommandInTheBackgroundAssignsIsGoneBehindIt) {
  for (const char* script :
       {"A=1\nA=2 &", "A=1\nfor i in 2 3; do A=$i; done &\nwait", "A=1\n{ A=2; } &", "A=1; A=2 & B=3",
        "f() { A=3; }\nA=1\nf &", "A=1\nif true; then A=2; fi &", "A=1\ncase x in x) A=2;; esac &",
        "A=1\n[ 1 = 1 ] && A=2 &", "A=1\nexport A=2 &", "A=1\nread A <<< 2 &", "A=1\nexit 1 &"})
    EXPECT_EQ(read(script), "a=1") << script;
  EXPECT_EQ(read("set -- 1 2\nshift &\nA=$1"), "a=1");
  EXPECT_EQ(read("A=1\nif true; then\n  A=2 &\n  A=3\nfi"), "a=3");
}

TEST(ShellJobs, WhatAPipelineAssignsIsGoneBehindIt) {
  for (const char* script :
       {"A=1\nA=2 | cat", "A=1\necho 2 | A=2", "A=1\necho 2 | while read B; do A=2; done",
        "A=1\n[ 1 = 2 ] && echo x | A=2", "A=1\n[ 1 = 1 ] && { A=2; } | cat", "A=1\n! A=2 | cat",
        "A=1\nset -- a b\nwhile [ $# -gt 1 ]; do shift; A=2; done | cat"})
    EXPECT_EQ(read(script), "a=1") << script;
  // What does not run because of the sign before its pipeline leaves the success of the command before it.
  EXPECT_EQ(read("A=1\n[ 1 = 2 ] && echo x | cat || A=4"), "a=4");
  EXPECT_EQ(read("A=1\n{ A=2; } > log; { A=3; } 2>&1"), "a=3");
  EXPECT_EQ(read("A=1\nA=2 && echo x |& tee log"), "a=2");
}

TEST(ShellJobs, ManyBlocksInsideOfEachOtherAreRefused) {
  constexpr int kBlocks = 50'000;
  std::string script = "A=1\n";
  for (int i = 0; i < kBlocks; ++i) script += "{ ";
  for (int i = 0; i < kBlocks; ++i) script += "x; } | x; ";
  EXPECT_EQ(test::refusal_of([&] { verify::parse_shell(script); }), "script_syntax at line 2");
}

TEST(ShellJobs, ATrainingInTheBackgroundOrInAPipelineIsRead) {
  EXPECT_EQ(read("A=1\nfor i in 0 1; do A=$i; python x.py --b $A & done; wait; A=4"), "a=4");
  const auto run = verify::read_run_script("N=2\nsize() { N=4; python x.py --n $N; }\nsize | tee log", {});
  EXPECT_EQ(test::text_of(run), "n=4");
  EXPECT_EQ(test::text_of(verify::read_run_script("N=2\nN=3; python x.py --n $N 2>&1 | tee log &\n", {})),
            "n=3");
}

}  // namespace
