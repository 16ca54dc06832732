// Proves that a script whose blocks no shell takes is refused at the line that mends it, and that text which
// is no script is not.

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "verify/run_arguments/run_script.h"

namespace {

struct Row {
  std::string script;
  std::string told;  // the line and what is missing; "" where the script is read
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.script; }

std::string told(const std::string& script) {
  try {
    verify::read_run_script(script, {});
  } catch (const sim::Error& error) {
    const sim::Refusal& refusal = error.refusal();
    return refusal.code == "script_syntax" ? refusal.option + ": " + refusal.numbers : refusal.code;
  }
  return "";
}

class Blocks : public testing::TestWithParam<Row> {};

TEST_P(Blocks, AreThoseOfAShell) { EXPECT_EQ(told(GetParam().script), GetParam().told); }

constexpr const char* kTrains = "python x.py --a 1\n";

INSTANTIATE_TEST_SUITE_P(
    All, Blocks,
    testing::ValuesIn(std::vector<Row>{
        {std::string("X=1\nif [ $X ]; then\n") + kTrains, "line 2: an `if` without its `fi`"},
        {std::string("for x in 1; do\n") + kTrains, "line 1: a loop without its `done`"},
        {std::string("if [ 1 ]\nX=2\nfi\n") + kTrains, "line 1: an `if` without its `then`"},
        {std::string("#!/bin/sh\nwhile false\nX=2\ndone\n") + kTrains, "line 2: a loop without its `do`"},
        {std::string("#!/bin/sh\ncase a in\na) X=1\nb) X=2 ;;\nesac\n") + kTrains,
         "line 4: a pattern of a `case` after commands that do not end with `;;`"},
        {std::string("#!/bin/sh\ncase a in\na) X=1 ;;\nb) X=2\nesac\n") + kTrains, ""},
        {std::string("#!/bin/sh\ncase a in\n(a) (X=1) ;;\nesac\n") + kTrains, ""},
        {std::string("#!/bin/sh\ncase a in\na) X=1 ;;\n") + kTrains, "line 2: a `case` without its `esac`"},
        {std::string("#!/bin/sh\nf() {\nX=1\n") + kTrains, "line 2: the `{` of a function without its `}`"},
        {std::string("#!/bin/sh\n{ X=1\n") + kTrains, "line 2: a `{` without its `}`"},
        {std::string("#!/bin/sh\nX=1\nfi\n") + kTrains, "line 3: `fi` without an `if`"},
        {std::string("#!/bin/sh\nfor x in 1; do if [ 1 ]; then X=1; done\nfi\n") + kTrains,
         "line 2: `done` where an `if` of line 2 has not ended"},
        {std::string("#!/bin/sh\necho a)\n") + kTrains, "line 2: `)` without a '('"},
        {std::string("#!/bin/sh\nX=$(case $S in 7b) echo 8;; (1b) echo 1;; *) echo 4;; esac)\n") + kTrains,
         ""},
        {std::string("#!/bin/sh\nX=$(echo case in ')')\n") + kTrains, ""},
        {std::string("#!/bin/sh\nX=$(echo 4 # a ) that isn't one\n)\n") + kTrains, ""},
        {std::string("#!/bin/bash\nfor i in 1 2; { echo $i; }\n") + kTrains, ""},
        {std::string("#!/bin/bash\nfor ((i = 0; i < 2; i++)) { echo $i; }\n") + kTrains, ""},
        {std::string("#!/bin/bash\nfor i in 1 2; { echo $i; \n") + kTrains, "line 2: a `{` without its `}`"},
        {std::string("X=1\nfi\n") + kTrains, ""},
        {std::string("In case of errors\n") + kTrains, ""},
        {std::string("if this is text, it is none:\n") + kTrains, "line 1: an `if` without its `then`"},
        {"python x.py --b 1 \\\n --a ([0]*3+[1])\n", "bare_bracket"},
        {"srun bash -c \"python x.py --b 1 --a ([0]*3+[1])\"\n", "bare_bracket"},
        {"cat <<E > f\npython x.py --b 1 --a ([0]*3+[1])\nE\npython x.py --a 1\n", ""},
        {"python x.py --a 1 & (sleep 1)\n", ""},
        {"cat <<E > f\n--a 1\n  E\n",
         "line 2: a here-document without its last line 'E': line 3 has blanks "
         "beside it"},
    }));

TEST(Blocks, AnElseIfOpensAnother) {
  EXPECT_EQ(told("if [ 1 ]; then\nX=1\nelse if [ 2 ]; then\nX=2\nfi\npython x.py --a 1\n"),
            "line 1: an `if` without its `fi`");
}

}  // namespace
