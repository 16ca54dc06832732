// Proves that the text that commands take apart in $(...) is what they print, and that nothing is guessed.

#include "verify/run_arguments/shell_filters.h"

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_script.h"

namespace {

struct Row {
  std::string command;
  std::string printed;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.command; }

std::string read(const std::string& command) {
  return test::text_of(
      verify::read_run_script("S=a-b,c\nNONE=\nP=/data/Llama-8B.sh\npython x.py --w $(" + command + ")", {}));
}

class Filter : public testing::TestWithParam<Row> {};

TEST_P(Filter, PrintsWhatTheCommandPrints) {
  const bool is_followed = GetParam().printed != "not followed";
  EXPECT_EQ(read(GetParam().command),
            "w=" + (is_followed ? GetParam().printed : "$(" + GetParam().command + ")"));
}

INSTANTIATE_TEST_SUITE_P(All, Filter,
                         testing::ValuesIn(std::vector<Row>{
                             {"basename $P", "Llama-8B.sh"},
                             {"basename \"$P\" .sh", "Llama-8B"},
                             {"basename $(dirname /a/b/c)", "b"},
                             {"dirname $P", "/data"},
                             {"dirname a", "."},
                             {"dirname /a", "/"},
                             {"echo $S | cut -d, -f2", "c"},
                             {"echo a:b:c:d | cut -d ':' -f 1,3-", "a:c:d"},
                             {"echo $S | cut -d: -f2", "a-b,c"},
                             {"echo $S | tr ',' ' '", "a-b=c"},
                             {"echo $S | tr a-z A-Z", "A-B,C"},
                             {"echo $S | tr -d ,", "a-bc"},
                             {"echo aab | tr -s a", "ab"},
                             {"echo AbC | tr '[:upper:]' '[:lower:]'", "abc"},
                             {"echo 1,2,3 | tr ',' '\\n' | wc -l", "3"},
                             {"echo 1,2,3 | tr ',' '\\n' | head -1", "1"},
                             {"echo 1,2,3 | tr ',' '\\n' | tail -n 1", "3"},
                             {"printf '1\\n2\\n3' | tail -n +2 | xargs", "2=3"},
                             {"echo '4*8' | bc", "32"},
                             {"echo '10 / 3' | bc", "3"},
                             {"echo '(1+2)*3' | bc -l", "9"},
                             {"bc <<< 3*4", "12"},
                             {"cut -d: -f1 <<< x:y", "x"},
                             {"echo '1  7' | awk '{print $2}'", "7"},
                             {"echo $S | awk -F- '{ print $NF }'", "b,c"},
                             {"awk 'BEGIN{print 3*4}'", "12"},
                             {"python3 -c 'print(4*2+1)'", "9"},
                             {"echo a,b,c | sed 's/,/ /g'", "a=b=c"},
                             {"echo a,b,c | sed 's|,|+|'", "a+b,c"},
                             {"echo x=7 | sed -n 's/^x=//p'", "7"},
                             {"echo a12b | sed -E 's/[a-z]+([0-9]+).*/\\1/'", "12"},
                             {"echo a12b | sed 's/[^0-9]*\\([0-9]*\\).*/<&>\\1/'", "<a12b>12"},
                             {"echo /a/b | sed 's/\\/a//'", "/b"},
                             {"printf '1\\n2\\n3\\n' | sed -n 2p", "2"},
                             {"printf '1\\n2\\n3\\n' | sed '1d;$d'", "2"},
                             {"printf '1\\n2\\n3\\n' | sed '/2/d' | xargs", "1=3"},
                             {"printf 'a=1\\nb=2\\n' | grep '^b='", "b=2"},
                             {"printf 'a=1\\nb=2\\n' | grep -v b", "a=1"},
                             {"printf 'a=1\\nb=2\\n' | grep -c =", "2"},
                             {"printf 'a=1\\nB=2\\n' | grep -n -i b", "2:B=2"},
                             {"echo llama-7b-8k | grep -oE '[0-9]+' | tail -n 1", "8"},
                             {"echo llama-7b-8k | grep -oP '\\d+(?=k)'", "not followed"},
                             {"echo llama-7b-8k | grep -oP '\\dk'", "8k"},
                             {"echo a+b | grep -F '+b'", "a+b"},
                             {"echo a+b | grep 'a+b'", "a+b"},
                             {"echo abc | grep -oP '\\D'", "not followed"},
                             {"echo 4 | grep -oP '\\t4'", "not followed"},
                             {"echo A4 | grep -io '[[:upper:]]4'", "not followed"},
                             {"echo '4 x' | grep -ioE '\\S+'", "not followed"},
                             {"echo aXb | grep -io 'x\\|y'", "X"},
                             {"echo 4n8 | sed 's/\\n//'", "not followed"},
                             {"echo tp4 | sed 's/[\\t ]*//'", "not followed"},
                             {"echo ab4 | sed 's/[[:alpha:]+]*//'", "4"},
                             {"echo ab8 | sed 's/\\(^ab\\)8/4/'", "4"},
                             {"echo ab8 | sed 's/x\\|^ab/4/'", "48"},
                             {"echo ab8 | sed 's/\\(8$\\)/4/'", "ab4"},
                             {"echo 'a*b' | sed 's/\\(*b\\)/4/'", "a4"},
                             {"echo aab | grep -o 'a\\+'", "aa"},
                             {"printf 'a 1\\nb 2\\n' | awk '/b/ {print $2}'", "2"},
                             {"printf 'a 1\\nb 2\\n' | awk '$1==\"a\" {print $2\":\"$1, NR}'", "1:a=1"},
                             {"printf 'a 1\\nb 2\\n' | awk 'NR==2'", "b=2"},
                             {"printf 'a 1\\nb 2\\n' | awk 'END{print NR}'", "2"},
                             {"echo 0,1,2 | awk -F, '{print NF}'", "3"},
                             {"echo aaaaa | sed 's/aa/b/g'", "bba"},
                             {"echo 4; $NONE", "4"},
                             {"$NONE && echo 4", "4"},
                             {"tr '\\n' ' ' <<E\n1\n2\nE\n", "1=2"},
                         }));

TEST(ShellFilters, NothingIsGuessed) {
  for (const char* command : {"echo $X | cut -d, -f2",
                              "echo 10/3 | bc -l",
                              "echo 'scale=2; 1/3' | bc",
                              "echo 1.5*2 | bc",
                              "python3 -c 'print(4/2)'",
                              "python3 x.py | tail -1",
                              "echo a | sed 'y/a/b/'",
                              "echo a | sed -i s/a/b/",
                              "echo a | sed 's/a/b/2'",
                              "echo a | grep b",
                              "echo a | grep -w a",
                              "echo aa | grep '\\(a\\)\\1'",
                              "echo a | grep a hosts",
                              "echo 010+1 | bc",
                              "echo a | tr [a-c] x",
                              "basename -s .sh a.sh",
                              "echo a | awk '{printf $1}'",
                              "echo 1 2 | awk '{print $1*2}'",
                              "echo 1 | awk '$1==1'",
                              "echo 1 2 | awk '{print $1 2}'",
                              "echo 1 2 | awk '{print $-1}'",
                              "! basename /a/2 || echo 4",
                              "if false; then echo a | if true; then echo b; fi; echo 4; fi",
                              "echo a | wc -L",
                              "echo a | cat hosts",
                              "echo '2**3' | bc",
                              "echo a | cut -b1"}) {
    const verify::RunArguments run =
        verify::read_run_script(std::string("python x.py --w $(") + command + ")", {});
    EXPECT_EQ(run.unresolved.size(), 1U) << command;
  }
  const verify::RunArguments run = verify::read_run_script("python x.py --w $(echo $X | cut -d, -f2)", {});
  EXPECT_EQ(run.unresolved.at(0).variable, "X");
}

/// Sizes at which a search of the whole set for each sign, or moving the rest of a line for each replacement,
/// takes minutes.
TEST(ShellFilters, LongTextsTakeTheTimeOfTheirLength) {
  const std::string many(100'000, 'a');
  EXPECT_EQ(read("echo " + many + " | tr " + many + " b | wc -c"), "w=100001");
  EXPECT_EQ(read("echo " + many + " | sed 's/aa/b/g' | wc -c"), "w=50001");
}

TEST(ShellFilters, WhatASubstitutionAssignsIsGoneBehindIt) {
  const auto read = [](const std::string& script) {
    return test::text_of(verify::read_run_script(script + "\npython x.py --a $A\n", {}));
  };
  EXPECT_EQ(read("f() { N=4; echo 2; }; N=1; X=$(f | head -1); A=$N"), "a=1");
  EXPECT_EQ(read("f() { N=4; echo 2; }; N=1; A=$(f | head -1; echo $N)"), "a=2=1");
  EXPECT_EQ(read("f() { N=4; echo $1; }; set -- 7; X=$(f 2); A=$1"), "a=7");
  EXPECT_EQ(read("[[ a2 =~ a(.) ]]; X=$([[ b4 =~ b(.) ]] && echo 1); A=${BASH_REMATCH[1]}"), "a=2");
}

TEST(Grep, TellsABranchWhatItFinds) {
  const auto read_script = [](const std::string& condition) {
    return test::text_of(verify::read_run_script(
        "M=mixtral-moe\nX=1\nif " + condition + "; then X=2; fi\npython x.py --w $X\n", {}));
  };
  EXPECT_EQ(read_script("echo $M | grep -q moe"), "w=2");
  EXPECT_EQ(read_script("echo $M | tr a-z A-Z | grep -q moe"), "w=1");
  EXPECT_EQ(read_script("! echo $M | grep -q moe"), "w=1");
  EXPECT_EQ(read_script("grep -qi MOE <<< $M"), "w=2");
  EXPECT_EQ(read_script("true && echo $M | grep -qE '^moe'"), "w=1");
  EXPECT_EQ(read_script("echo $OTHER | grep -q moe"), "w=X=2");
  EXPECT_EQ(read_script("cat f | grep -q moe"), "w=X=2");
}

}  // namespace
