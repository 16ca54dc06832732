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
      verify::read_run_script("S=a-b,c\nP=/data/Llama-8B.sh\npython x.py --w $(" + command + ")", {}));
}

class Filter : public testing::TestWithParam<Row> {};

TEST_P(Filter, PrintsWhatTheCommandPrints) { EXPECT_EQ(read(GetParam().command), "w=" + GetParam().printed); }

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
                             {"tr '\\n' ' ' <<E\n1\n2\nE\n", "1=2"},
                         }));

TEST(ShellFilters, NothingIsGuessed) {
  for (const char* command :
       {"echo $X | cut -d, -f2", "echo 10/3 | bc -l", "echo 'scale=2; 1/3' | bc", "echo 1.5*2 | bc",
        "python3 -c 'print(4/2)'", "python3 x.py | tail -1", "echo a | sed 's/./x/'", "echo a | grep a",
        "echo 010+1 | bc", "echo a | tr [a-c] x", "basename -s .sh a.sh", "echo a | awk '/a/{print $1}'",
        "nvidia-smi -L | wc -l", "cat hosts | wc -l", "echo '2**3' | bc", "echo a | cut -b1"}) {
    const verify::RunArguments run =
        verify::read_run_script(std::string("python x.py --w $(") + command + ")", {});
    EXPECT_EQ(run.unresolved.size(), 1U) << command;
  }
  const verify::RunArguments run = verify::read_run_script("python x.py --w $(echo $X | cut -d, -f2)", {});
  EXPECT_EQ(run.unresolved.at(0).variable, "X");
}

}  // namespace
