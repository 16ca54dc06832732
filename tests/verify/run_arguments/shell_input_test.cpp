// Proves that what `read`, `mapfile`, `getopts`, `printf` and arithmetic give to variables is what bash gives
// them, and that a script ends where `set -e` ends it.

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_script.h"

namespace {

using verify::read_run_script;
using verify::RunArguments;

struct InputRow {
  std::string script;
  std::string arguments;
};

void PrintTo(const InputRow& row, std::ostream* out) { *out << '\'' << row.script << '\''; }

/// The arguments that a script gives to x.py, and the texts of what could not be resolved.
std::string read(const std::string& script) {
  const RunArguments run = read_run_script("A=()\n" + script + "\npython x.py --a \"${A[*]}\"\n", {});
  std::string text = test::text_of(run);
  for (const verify::Unresolved& unknown : run.unresolved) text += " | " + unknown.text;
  return text;
}

class ScriptInput : public testing::TestWithParam<InputRow> {};

TEST_P(ScriptInput, IsWhatBashGives) { EXPECT_EQ(read(GetParam().script), GetParam().arguments); }

INSTANTIATE_TEST_SUITE_P(
    Read, ScriptInput,
    testing::ValuesIn(std::vector<InputRow>{
        {"while read -r x; do A+=($x); done <<E\n1 2\n3\nE\n", "a=1 2 3"},
        {"while IFS== read -r k v; do [ -z \"$k\" ] && continue; A+=($v$k); done <<'E'\nk=1\n\nl=2=3\nE\n",
         "a=1k 2=3l"},
        {"while read -r n v; do [[ $n == b ]] && A=($v) && break; done <<E\na 1\nb 2\nc 3\nE\n", "a=2"},
        {"while read -r x; do A+=($x); done < <(echo 1; echo 2)", "a=1 2"},
        {"while read -r x; do A+=($x); done <<< '1\n2'", "a=1 2"},
        {"while read -r x; do A+=($x); done < <(printf '1\\n2')", "a=1"},
        {"while read -r x || [ -n \"$x\" ]; do A+=($x); done < <(printf '1\\n2')", "a=1 2"},
        {"while read -r x && read -r y; do A+=($y$x); done <<E\n1\n2\n3\n4\nE\n", "a=21 43"},
        {"until ! read -r x; do A+=($x); done <<< 1", "a=1"},
        {"while read -r; do A+=($REPLY); done <<< 1", "a=1"},
        {"while read -r x; do while read -r y; do A+=($x$y); done <<< 2; done <<E\n1\n3\nE\n", "a=12 32"},
        {"if read -r x y <<< '1 2'; then A=($y); fi", "a=2"},
        {"echo 1 | while read -r x; do A=($x); done", "a="},
        {"while read -r x; do A=($x); done < sizes.txt", "a=A=${x} | A=${x}"},
        {"while read -r x; do read -r y < sizes.txt; A=($y); done <<< 1", "a=${y} | ${y}"},
        {"while read -r x; do A=($x); done <<< $UNKNOWN", "a=A=${x} | A=${x}"},
        {"while read -r x; do { read -r y; } <<< 9; A+=($x$y); done <<E\n1\n2\nE\n", "a=19 29"},
        {"while read -r x; do if read -r y; then A+=($x$y); fi <<< 9; done <<E\n1\n2\nE\n", "a=19 29"},
        {"while read -r x; do ( read -r y ) <<< 9; A+=($x); done <<E\n1\n2\nE\n", "a=1 2"},
        {"while read -r x; do echo 5 | { read -r y; }; A+=($x); done <<E\n1\n2\nE\n", "a=1 2"},
        {"f() { read -r y; A+=($x$y); }\nwhile read -r x; do f <<< 9; done <<E\n1\n2\nE\n", "a=19 29"},
        {"{ read -r x; read -r y; } <<E\n1\n2\nE\nA=($y$x)", "a=21"},
        {"read -r <<< 1; read -r < sizes.txt; A=($REPLY)", "a=${REPLY} | ${REPLY}"},
        {"IFS=$UNKNOWN; read -r x y <<< x1y; unset IFS; A=($x)", "a=${x} | ${x}"},
    }));

INSTANTIATE_TEST_SUITE_P(Mapfile, ScriptInput,
                         testing::ValuesIn(std::vector<InputRow>{
                             {"mapfile -t M <<E\n--b\n1 2\nE\nA=(${#M[@]} ${M[1]})", "a=2 1 2"},
                             {"readarray -t A < <(printf '%s\\n' 1 2); A+=(3)", "a=1 2 3"},
                             {"readarray -d, -t A < <(printf 1,2,3)", "a=1 2 3"},
                             {"mapfile M <<< 1; A=(${M[@]} 2)", "a=1 2"},
                             {"mapfile -t A < sizes.txt", "a=${A} | ${A}"},
                             {"mapfile -n 1 -t A <<< 1", "a=${A} | ${A}"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Getopts, ScriptInput,
    testing::ValuesIn(std::vector<InputRow>{
        {"f() { while getopts t:bp: o; do A+=($o$OPTARG); done; shift $((OPTIND-1)); A+=($1); }\nf -bt4 -p 2 "
         "r",
         "a=b t4 p2 r"},
        {"f() { while getopts :t: o; do A+=($o$OPTARG); done; }\nf -x -t", "a=?x :t"},
        {"f() { while getopts bt: o; do A+=($o); done; shift $((OPTIND-1)); A+=($*); }\nf -b -- -t 4",
         "a=b -t 4"},
        {"f() { local OPTIND; while getopts t: o; do A+=($OPTARG); done; }\nf -t 2; f -t 4", "a=2 4"},
        {"f() { while getopts t: o; do A+=($OPTARG); done; }\nf -t 2; f -t 4", "a=2"},
        {"set -- -t 3\nwhile getopts t: o; do A+=($OPTARG); done", "a=3"},
        {"T=1\nwhile getopts t: o; do T=$OPTARG; done; A=($T)", "a=T=${OPTARG} | T=${OPTARG}"},
    }));

INSTANTIATE_TEST_SUITE_P(Values, ScriptInput,
                         testing::ValuesIn(std::vector<InputRow>{
                             {"printf -v A '%-3s|%02d|%x|%.2e|%5.1f' a 7 255 3 2.25",
                              "a=a  |07|ff|3.00e+00|  2.2"},
                             {"printf -v A %d 010", "a=${A} | ${A}"},
                             {"A=($(printf -- '-%d' 1 2))", "a=-1-2"},
                             {"A=($[2*3] $((10#08)) $((16#ff)))", "a=6 8 255"},
                             {"X=1; ((X+=2,X*=3)); A=($X)", "a=9"},
                             {"for ((i=0,s=0; i<4; s+=i, i++)); do :; done; A=($s)", "a=6"},
                             {"X=\"it's\"; A=(${X@Q} ${X@U})", "a='it'\\''s' IT'S"},
                             {"declare -A M=([k]=1); A=(${M[l]:-2} ${M[k]:-3})", "a=2 1"},
                             {"f() { declare -g A=4; local L=2; }\nf", "a=4"},
                             {"N=`expr 4 \\* 8`; A=($N)", "a=32"},
                         }));

/// Scripts that end by `set -e` before their command, and the line.
TEST(ScriptEnd, IsWhereACommandFailsUnderSetE) {
  const auto told = [](const std::string& script) -> std::string {
    try {
      read_run_script(script + "\npython x.py --a 1\n", {});
    } catch (const sim::Error& error) {
      return error.refusal().numbers;
    }
    return "";
  };
  for (const char* script :
       {"set -e\nn=0\n((n++))", "set -euo pipefail\n\n[ 1 -eq 2 ]", "set -o errexit\nn=0\nlet n++",
        "#!/bin/bash -e\n\nfalse", "set -e\n:\nread -r -d '' X <<E\n--b\nE\n"})
    EXPECT_TRUE(told(script).starts_with("the script ends with the command of line 3, which fails"))
        << script;
  for (const char* script : {"false",
                             "set -e\nset +e\nfalse",
                             "set -e\nn=0\n((++n))",
                             "set -e\nfalse || true",
                             "set -e\nif false; then :; elif [ 1 -eq 2 ]; then :; fi",
                             "set -e\n! true",
                             "set -e\n[ 1 -eq 2 ] && X=1",
                             "set -e\n{ false; } || true",
                             "set -e\n( false ) || true",
                             "set -e\nf() { false; true; }\nf || true",
                             "set -e\nwhile false; do :; done",
                             "( set -e; true )\nfalse",
                             "set -e\nfalse | true",
                             "set -e\nread -r -d '' X <<E || true\n--b\nE\n",
                             "set -x\nfalse",
                             "set -- -e\nfalse",
                             "set -e\nf() { [ $1 -gt 0 ] || { return 0; } && true; }\nf 0\ntrue",
                             "set -e\nf() { i=0; while [ $i -lt 2 ]; do i=$((i+1)); done; }\nf",
                             "#!/bin/bash --noprofile\nfalse",
                             "set -x -- -e\nfalse"})
    EXPECT_EQ(told(script), "") << script;
}

}  // namespace
