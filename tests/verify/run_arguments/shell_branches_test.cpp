// Proves that the branches of a launch script are followed as bash follows them where their conditions are
// known, and that nothing is guessed where they are not.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <ostream>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "tests/support/refusal_code.h"
#include "tests/support/run.h"
#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_script.h"

namespace {

using verify::read_run_script;
using verify::RunArguments;
using verify::RunVariables;

/// The arguments that a script gives to train.py, and the texts of what could not be resolved.
std::string read(const std::string& script, const RunVariables& set = {}) {
  const RunArguments run =
      read_run_script("A=()\nB=\n" + script + "\npython train.py --begin ${A[@]} ${B}\n", set);
  std::string text = test::text_of(run);
  for (const verify::Unresolved& unknown : run.unresolved) text += " | " + unknown.text;
  return text;
}

struct Row {
  std::string script;
  std::string arguments;
};

void PrintTo(const Row& row, std::ostream* out) { *out << '\'' << row.script << '\''; }

class Branch : public testing::TestWithParam<Row> {};

TEST_P(Branch, IsTakenWhereItsConditionIsKnown) {
  EXPECT_EQ(read(GetParam().script), GetParam().arguments) << GetParam().script;
}

INSTANTIATE_TEST_SUITE_P(
    All, Branch,
    testing::ValuesIn(std::vector<Row>{
        {"X=7b\nif [ $X = 7b ]; then A=(--tp 1); elif [ $X = 8b ]; then A=(--tp 2); else A=(--tp 4); fi",
         "begin tp=1"},
        {"X=8b\nif [ $X = 7b ]; then A=(--tp 1); elif [ $X = 8b ]; then A=(--tp 2); else A=(--tp 4); fi",
         "begin tp=2"},
        {"X=9b\nif [ $X = 7b ]\nthen A=(--tp 1)\nelif [ $X = 8b ]\nthen A=(--tp 2)\nelse A=(--tp 4)\nfi",
         "begin tp=4"},
        {"N=16\nif [[ $N -gt 8 && \"$N\" != 32 ]]; then A+=(--pp 2); fi", "begin pp=2"},
        {"N=32\nif [[ ( $N -gt 8 || -z $N ) && ! $N == 32 ]]; then A+=(--pp 2); fi", "begin"},
        {"F=true\nif [ \"$F\" = true ] && [ -n \"$F\" ]; then A+=(--bf16); fi", "begin bf16"},
        {"F=\n[ -z \"$F\" ] || A+=(--fp8)\n[[ -z $F ]] && B='--bf16'", "begin bf16"},
        {"if ! false; then A+=(--bf16); fi; if ! [ 1 -eq 1 ]; then A+=(--fp16); fi", "begin bf16"},
        {"S=13b\ncase $S in\n  7b|8b) A=(--tp 1) ;;\n  13b)\n    A=(--tp 2)\n    ;;\n  *) A=(--tp 8) "
         ";;\nesac",
         "begin tp=2"},
        {"S=70b\ncase \"$S\" in 7b) A=(--tp 1);; (*) A=(--tp 8);; esac", "begin tp=8"},
        {"T=4\nif (( $T > 1 )); then A+=(--sp); fi", "begin sp"},
        {"T=1\n(( T > 1 )) && A+=(--sp)\n(( T == 1 && ${N:-2} != 1 )) && A+=(--bf16)", "begin bf16"},
        {"T=1\n(( T++ ))\nif (( T == 1 )); then A+=(--sp); fi", "begin"},
        {"if (( N > 1 )); then A+=(--sp); fi", "begin | A+=--sp"},
        {"B='--x 1'\nif [ $1 = x ]; then B=\"$B --tp 2\"; B+=' --pp 2'; fi", "begin x=1 | B+=--tp 2 --pp 2"},
        {"B='--x 1'\nif [ $1 = x ]; then B=\"--tp 2 $B\"; fi", "begin x=1 | B+=--tp 2"},
        {"if [ -z \"$T\" ]; then T=2; fi\n[[ -z ${P} ]] && P=3\nA+=(--tp $T --pp $P)", "begin tp=2 pp=3"},
        {"T=$1\nif [ -z $T ]; then T=2; else T=3; fi\nA+=(--tp $T)", "begin tp=T=3 | T=3"},
        {"T=$(nproc)\nif [ -z $T ]; then T=2; fi\nA+=(--tp $T)", "begin tp=T=2 | T=2"},
        {"T=\nif [ -z $T ]; then A+=(--sp); else A+=(--bf16); fi", "begin sp"},
        {"T=\nif [ $T = 1 ]; then A+=(--sp); else A+=(--bf16); fi", "begin bf16"},
        {"T=\nif [ $T ] || [ -f $T ]; then A+=(--sp); fi", "begin sp"},
        {"T=\nif [ $T -eq 1 ]; then A+=(--sp); else A+=(--bf16); fi", "begin | A+=--sp | A+=--bf16"},
        {"if [ -f x.txt ]; then A+=(--load x.txt); fi", "begin | A+=--load x.txt"},
        {"B='--x'\nif [ $1 = x ]; then B=\"$B; rm y\"; fi", "begin | B=--x; rm y"},
        {"if [ -z $T ]; then P=2; fi\nA+=(--pp $P)", "begin pp=P=2 | P=2"},
        {"if [[ -f x.txt ]]; then A+=(--load x.txt); else A+=(--bf16); fi",
         "begin | A+=--load x.txt | A+=--bf16"},
        {"if [[ $1 == 7b* ]]; then A+=(--tp 1); fi", "begin | A+=--tp 1"},
        {"S=7b\nif [[ $S == 7* ]]; then A+=(--tp 1); fi", "begin tp=1"},
        {"S=7b\nfor i in 1 2; do if [ $S = 7b ]; then A+=(--tp $i); fi; done", "begin tp=1 tp=2"},
        {"for i in 1 2; do for j in 3 4; do A+=(--a$i $j); done; done", "begin a1=3 a1=4 a2=3 a2=4"},
        {"for i in 1 2; do [ $i = 2 ] && break; A+=(--tp 1); done", "begin tp=1"},
        {"for i in 1 2; do [ $N = 2 ] && break; A+=(--tp 1); done", "begin | A+=--tp 1 | A+=--tp 1 --tp 1"},
        {"for i in 1 $N; do A+=(--tp 1); done", "begin | A+=--tp 1"},
        {"for f in *.txt; do A+=(--tp 1); done", "begin | A+=--tp 1"},
        {"for i in; do A+=(--tp 1); done", "begin"},
        {"for i; do A+=(--tp 1); done", "begin | A+=--tp 1"},
        {"while read i; do A+=(--tp 1); done", "begin | A+=--tp 1"},
        {"S=a\nwhile read i; do case $S in a) A+=(--tp 1);; b) A+=(--tp 2);; esac; S=b; done",
         "begin | A+=--tp 1 | A+=--tp 2"},
        {"S=a\nwhile read i; do if [ $S = b ]; then A+=(--tp 1); fi; done", "begin"},
        {"S=a\nwhile read i; do if [ $S = b ]; then A+=(--tp 1); fi; S=$i; done", "begin | A+=--tp 1"},
        {"T=2\n(T=4; cd x)\nA+=(--tp $T)", "begin tp=2"},
        {"T=2\nunset T\nA+=(--tp ${T:-4})", "begin tp=4"},
        {"T=2\n[ $1 = x ] && unset T\nA+=(--tp ${T:-4})", "begin tp=${T} | ${T}"},
        {"cd x || { echo no; exit 1; }\nA+=(--tp 1)", "begin tp=1"},
        {"[ -f x ] || exit 1\nA+=(--tp 1)", "begin tp=1"},
        {"(exit 1)\nA+=(--tp 1)", "begin tp=1"},
        {"T=1\n[ $T -gt 1 ] && { A+=(--tp 8); P=4; } || { A+=(--tp 4); P=2; }\nA+=(--pp $P)",
         "begin tp=4 pp=2"},
        {"T=1\n[ $T -gt 1 ] && ( cd x ) || { T=2; }\nA+=(--tp $T)", "begin tp=2"},
        {"T=1\n[ $T = 2 ] && { exit 1; }\nA+=(--tp 1)", "begin tp=1"},
        {"T=4\n[ $1 = x ] && { T=8; }\nA+=(--tp $T)", "begin tp=T=8 | T=8"},
        {"[ -z \"$T\" ] && { T=2; }\nA+=(--tp $T)", "begin tp=2"},
        {"if [ $1 = x ]; then A+=(--a 1); elif [ 2 -eq 2 ]; then A+=(--b 1); else A+=(--c 1); fi",
         "begin | A+=--a 1 | A+=--b 1"},
        {"if [ $1 = x ]; then A+=(--a 1); elif [ 2 -eq 3 ]; then A+=(--b 1); fi", "begin | A+=--a 1"},
        {"if [ 1 -eq 2 ]; then if [ $1 = x ]; then A+=(--a 1); fi; A+=(--b 1); else A+=(--c 1); fi",
         "begin c=1"},
        {"grep x y && A+=(--a 1)\ntrue &&\n  A+=(--b 1)", "begin b=1 | A+=--a 1"},
        {"A=(--fp8 --overlap-param-gather)\nif [ $1 = x ]; then A+=(--tp 2); fi",
         "begin fp8 overlap-param-gather | A+=--tp 2"},
    }));

TEST(ShellBranches, AValueThatIsSetDecidesABranch) {
  const std::string script = "if [ ${SIZE} = 7b ]; then A=(--tp 1); else A=(--tp 8); fi";
  EXPECT_EQ(read(script, {{"SIZE", "7b"}}), "begin tp=1");
  EXPECT_EQ(read(script, {{"SIZE", "70b"}}), "begin tp=8");
  EXPECT_NE(read(script).find("|"), std::string::npos);
}

TEST(ShellBranches, ALoopThatBeginsForSureIsLeftWhereItsRoundIs) {
  EXPECT_EQ(read("while true; do A=(--tp 2); break; done"), "begin tp=2");
  EXPECT_EQ(read("for ((i = 0; i < 2; i++)); do A+=(--tp 2); break; done"), "begin tp=2");
  EXPECT_EQ(read("for ((i = 0; i < 0; i++)); do A=(); done && A+=(--tp 2)"),
            "begin tp=2");  // its status is 0
  const auto refusal = [](const std::string& loop) {
    return test::refusal_code([&] {
      read(loop + "\nX=${E:-4}; [ -z \"$E\" ] && exit 1; done", {{"E", ""}});
    });
  };
  EXPECT_EQ(refusal("for ((i = 0; i < 2; i++)); do"), "run_without_arguments");
  EXPECT_EQ(refusal("while true; do"), "run_without_arguments");
  EXPECT_EQ(refusal("while read i; do"), "none");  // it may have no round
}

TEST(ShellBranches, ADefaultOfAnArgumentThatABranchMaySetIsNotTaken) {
  EXPECT_NE(read("while read i; do set -- 8; done\nA=(--tp ${1:-2})").find("|"), std::string::npos);
  EXPECT_EQ(read("A=(--tp ${1:-2})"), "begin tp=2");
}

TEST(ShellBranches, AVariableOfArgumentsIsEmptyWhereItsBranchIsNotTaken) {
  const auto read = [](const std::string& branch, const std::string& words) {
    const RunArguments run = read_run_script("M=off\n" + branch + "\npython train.py --begin " + words, {});
    std::string text = test::text_of(run);
    for (const verify::Unresolved& unknown : run.unresolved) text += " | " + unknown.text;
    return text;
  };
  EXPECT_EQ(read("if [ $M = on ]; then L=\" --load x\"; fi", "$L ${L} --end 1"), "begin end=1");
  EXPECT_EQ(read("[ $M = on ] && L=(--load x)", "${L[@]} \"${L[@]}\" --end 1"), "begin end=1");
  EXPECT_EQ(read("if [ $M = on ]; then L=\"$L --a\"; fi\nL=\"$L --b\"", "$L"), "begin b");
  EXPECT_EQ(read("if [ $M = on ]; then L=\"--a\"; else L=\"--b\"; fi", "$L"), "begin b");
  EXPECT_EQ(read("if [ $M = on ]; then T=8; fi", "--tp $T"), "begin tp=$T | $T");
  EXPECT_EQ(read("if [ $1 = on ]; then L=\"--a\"; fi", "$L"), "begin | L=--a");
}

TEST(ShellBranches, TheVariableThatWouldTellIsNamed) {
  const auto asked = [](const std::string& script) {
    const RunArguments run = read_run_script("A=()\n" + script + "\npython train.py --tp $TP ${A[@]}\n", {});
    std::string text;
    for (const verify::Unresolved& unknown : run.unresolved) text += unknown.variable + " ";
    return text;
  };
  EXPECT_EQ(asked("SIZE=$2\nif [ $SIZE = 7b ]; then TP=1; else TP=2; fi"), "2 ");
  EXPECT_EQ(asked("SIZE=$2\ncase $SIZE in 7b) TP=1;; *) TP=2; A+=(--pp 2);; esac"), "2 2 ");
  EXPECT_EQ(asked("if [ -f x ]; then TP=1; else TP=2; fi"), "TP ");
  EXPECT_EQ(asked("if [ $1 = x ]; then A+=(--x); fi\nTP=$((N * 2))"), "N 1 ");
  EXPECT_EQ(asked("N=$(nproc)\nTP=$((N * ${M:-2}))"), "N ");
  EXPECT_EQ(asked("TP=`nproc`"), "TP ");
  EXPECT_EQ(asked("TP=M\nwhile read i; do TP+=E; done"), "TP ");
  EXPECT_EQ(asked("if [ $1 = x ]; then if [ 1 = 1 ]; then TP=1; fi; fi"), "1 ");
}

TEST(ShellBranches, OfTwoCommandsThatOfTheBranchIsRead) {
  const std::string script =
      "N=4\nif [ $N -gt 1 ]; then\n  torchrun --nnodes $N --nproc_per_node 8 train.py --tp 8\n"
      "else\n  python train.py --tp 1\nfi\n";
  const RunArguments run = read_run_script(script, {});
  EXPECT_EQ(test::text_of(run), "tp=8");
  EXPECT_EQ(run.world_size, 32);
  EXPECT_TRUE(run.notes.empty());
}

// ---- against bash itself

std::string drawn_arithmetic(int depth) {
  const std::string name(1, *rc::gen::element('X', 'Y', 'Z'));
  const std::string term =
      *rc::gen::element(name, fmt::format("${{{}:-3}}", name), std::string("2"), std::string("-1"));
  if (depth == 0) return term;
  const std::string other = drawn_arithmetic(depth - 1);
  const std::string sign =
      *rc::gen::element<std::string>("+", "-", "*", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "% 3 +");
  const std::string pair = fmt::format("{} {} {}", term, sign, other);
  return *rc::gen::element(pair, fmt::format("({}) * 2", pair), fmt::format("!({})", pair),
                           fmt::format("{} ? {} : {}", pair, other, term));
}

std::string drawn_condition(int depth) {
  const std::string name(1, *rc::gen::element('X', 'Y', 'Z'));
  const std::string value = *rc::gen::element<std::string>("1", "2", "3", "\"\"");
  const std::string test = *rc::gen::element<std::string>(
      fmt::format("\"${}\" = {}", name, value), fmt::format("\"${}\" != {}", name, value),
      fmt::format("-z \"${}\"", name), fmt::format("-z ${}", name), fmt::format("${} = {}", name, value),
      fmt::format("-n \"${}\"", name), fmt::format("${{{}:-0}} -gt 1", name),
      fmt::format("${{{}:-0}} -le 2", name));
  const std::string single = fmt::format("[ {} ]", test);
  switch (depth > 0 ? *rc::gen::inRange(0, 7) : *rc::gen::inRange(0, 3)) {
    case 2:
      return fmt::format("(( {} ))", drawn_arithmetic(2));
    case 0:
      return single;
    case 1:
      return fmt::format("[[ {} ]]", test);
    case 3:
      return fmt::format("! {}", single);
    case 4:
      return fmt::format("{} && {}", drawn_condition(depth - 1), single);
    case 5:
      return fmt::format("{} || {}", drawn_condition(depth - 1), single);
    default:
      return fmt::format("[[ ( {} || ! {} ) && {} ]]", test, test, test);
  }
}

/// Commands that assign and append, in branches of up to `depth`. Each appends another argument.
std::string drawn_commands(int depth, int& argument) {
  std::string text;
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) {
    const std::string append = fmt::format("A+=(--a{} $X)", argument++);
    switch (depth > 0 ? *rc::gen::inRange(0, 8) : *rc::gen::inRange(0, 2)) {
      case 0:
        text += append + "\n";
        break;
      case 1: {
        const char name = *rc::gen::element('X', 'Y', 'Z');
        const int value = *rc::gen::inRange(1, 4);
        ++argument;
        text += *rc::gen::element<std::string>(
            fmt::format("{}={}\n", name, value), fmt::format(": ${{{}:={}}}\n", name, value),
            fmt::format("f ${} \"${}\" 3\n", name, name), fmt::format("[ $X = 2 ] && f {}\n", value),
            fmt::format("{}=$(( {} ))\n", name, drawn_arithmetic(2)),
            fmt::format("A+=(${{{}:+--a{} $X}})\n", name, argument++),
            fmt::format("eval \"A+=(--a{} '\\$X')\"\n", argument));
        break;
      }
      case 2:
        text += fmt::format("{} && {}\n", drawn_condition(1), append);
        break;
      case 3:
        text += fmt::format("{} ||\n  {}\n", drawn_condition(1), append);
        break;
      case 4:
        text += fmt::format("case $X in\n  1|2)\n{}  ;;\n  ${{Y}}) {} ;;\n  *)\n{}esac\n",
                            drawn_commands(depth - 1, argument), append, drawn_commands(depth - 1, argument));
        break;
      case 5:  // the success of a call and of `eval` is not followed
        text += fmt::format("{} && {{\n{}{}\n}} ||\n{{ {}{}\n}}\n", drawn_condition(1),
                            drawn_commands(depth - 1, argument), drawn_condition(0),
                            drawn_commands(depth - 1, argument), drawn_condition(0));
        break;
      case 6:
        text += fmt::format("{} {} ( {}{} ) {} {{ {}; }}\n", drawn_condition(1),
                            *rc::gen::element<std::string>("&&", "||"), drawn_commands(depth - 1, argument),
                            drawn_condition(0), *rc::gen::element<std::string>("&&", "||"), append);
        break;
      default:
        text += fmt::format("if {}; then\n{}", drawn_condition(2), drawn_commands(depth - 1, argument));
        if (*rc::gen::arbitrary<bool>())
          text += fmt::format("elif {}\nthen\n{}", drawn_condition(1), drawn_commands(depth - 1, argument));
        if (*rc::gen::arbitrary<bool>()) text += "else\n" + drawn_commands(depth - 1, argument);
        text += "fi\n";
    }
  }
  return text;
}

/// What bash gives to the script that `python` would run.
std::string said_by_bash(const std::string& script) {
  const test::TemporaryFile file("branches.sh", script);
  test::RunResult result = test::run_process(
      fmt::format("bash -c 'python() {{ shift; echo \"$@\"; }}; . {} 2> /dev/null'", file.path()));
  RC_ASSERT(result.exit_code == 0);
  while (result.out.ends_with('\n')) result.out.pop_back();
  return result.out;
}

/// The arguments as bash prints them.
std::string written(const RunArguments& run) {
  std::string text;
  for (const verify::RunArgument& one : run.given) {
    text += fmt::format("{}--{}", text.empty() ? "" : " ", one.name);
    for (const std::string& value : one.values) text += " " + value;
  }
  return text;
}

RC_GTEST_PROP(ShellArithmetic, IsThatOfBash, ()) {
  const std::string script =
      fmt::format("X={}\nY={}\nZ=\npython train.py --begin $(( {} )) $(( {} ))\n", *rc::gen::inRange(1, 4),
                  *rc::gen::inRange(1, 4), drawn_arithmetic(4), drawn_arithmetic(3));
  const RunArguments run = read_run_script(script, {});
  RC_LOG(script);
  RC_ASSERT(run.unresolved.empty());
  RC_ASSERT(written(run) == said_by_bash(script));
}

RC_GTEST_PROP(ShellBranches, AreFollowedAsBashFollowsThem, ()) {
  int argument = 0;
  const std::string function = "f() {\n  local Y=$1\n  A+=(--f $Y $# \"$@\")\n  shift\n  X=${1:-$X}\n}\n";
  const std::string script =
      fmt::format("X={}\nY={}\nZ=\nA=()\n{}{}python train.py --begin ${{A[@]}} --end $X.$Y.$Z\n",
                  *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4), function, drawn_commands(3, argument));
  const RunArguments run = read_run_script(script, {});
  RC_LOG(script);
  RC_ASSERT(run.unresolved.empty());
  RC_ASSERT(written(run) == said_by_bash(script));
}

// A branch that only adds blanks has made another text, too.
TEST(BranchOfBlanks, IsNotKnownWhereItMayRun) {
  const auto read_with = [](const std::string& condition) {
    return read("X='a  b'\n" + condition + " && X+='  '\nA=(--save=\"$X\")");
  };
  EXPECT_EQ(read_with("[ -z \"$OTHER\" ]"), "begin save=X=a  b   | X=a  b  ");
  EXPECT_EQ(read_with("[ 1 = 1 ]"), "begin save=a=b");
  EXPECT_EQ(read_with("[ 1 = 2 ]"), "begin save=a=b");
}

}  // namespace
