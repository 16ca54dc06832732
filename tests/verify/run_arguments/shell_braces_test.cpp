// Proves that braces make the words that bash makes of them.

#include "verify/run_arguments/shell_braces.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_script.h"

namespace {

std::string read(const std::string& script) { return test::text_of(verify::read_run_script(script, {})); }
std::string words(const std::string& written) { return read("i=2\npython x.py --w " + written); }

TEST(ShellBraces, AListOrASequenceBecomesSeveralWords) {
  EXPECT_EQ(words("a{b,c}d"), "w=abd=acd");
  EXPECT_EQ(words("{a,{b,c}d}e x{1,2}{3,4}"), "w=ae=bde=cde=x13=x14=x23=x24");
  EXPECT_EQ(words("{1..3} {8..2..3} {01..3} {c..a}"), "w=1=2=3=8=5=2=01=02=03=c=b=a");
  EXPECT_EQ(words("{-1..1} {1,} h{,b}"), "w=-1=0=1=1=h=hb");
  EXPECT_EQ(words("/data/{\"x,y\",z} {$i,3}"), "w=/data/x,y=/data/z=2=3");
  EXPECT_EQ(read("python x.py --a{b,c}=1"), "ab=1 ac=1");
  EXPECT_EQ(read("for i in {1..3}; do A+=(--x$i {a,b}); done\npython x.py ${A[@]}"), "x1=a=b x2=a=b x3=a=b");
  EXPECT_EQ(read("iy=5\ni=2\npython x.py --w x{$i,3}y"), "w=x5=x3y");
}

TEST(ShellBraces, OtherBracesStayAsTheyAre) {
  EXPECT_EQ(words("\"{1..3}\" '{a,b}' \\{1,2} {x} {} {1..$i} {1..a} {1...3} {a,b"),
            "w={1..3}={a,b}={1,2}={x}={}={1..2}={1..a}={1...3}={a,b");
  EXPECT_EQ(read("A={1,2}\nB=\"{3..4}\"\npython x.py --a $A --b $B"), "a={1,2} b={3..4}");
  EXPECT_EQ(read("case a{b,c} in 'a{b,c}') A=1;; esac\npython x.py --a $A"), "a=1");
  EXPECT_EQ(read("export A={1,2}\npython x.py --a $A"), "a=2");
}

TEST(ShellBraces, MoreWordsThanAScriptHasAreRefused) {
  for (const char* script :
       {"python x.py --a {1..20000}", "python x.py --a {1..200}{1..200}",
        "python x.py --a {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"})
    EXPECT_EQ(test::refusal_of([&] { read(script); }), "run_file_size at line 1") << script;
  EXPECT_EQ(read("python x.py --a " + std::string(40, '{')), "a=" + std::string(40, '{'));
}

}  // namespace
