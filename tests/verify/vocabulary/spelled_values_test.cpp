// Proves that what is tried in the place of a word is the number that the word means.

#include "verify/vocabulary/spelled_values.h"

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

namespace {

struct Row {
  std::string word;
  std::string hint;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.word; }

class NumberHint : public testing::TestWithParam<Row> {};

TEST_P(NumberHint, IsTheNumberThatIsMeant) {
  EXPECT_EQ(verify::hint_for_number("num-layers", GetParam().word), GetParam().hint);
}

INSTANTIATE_TEST_SUITE_P(
    All, NumberHint,
    testing::ValuesIn(std::vector<Row>{
        {"24,", "--num-layers 24"},
        {"24 32", "--num-layers 24"},
        {"= 24", "--num-layers 24"},
        {"\u201c24\u201d", "--num-layers 24"},
        {"24.0", "--num-layers 24"},
        {"4k", "--num-layers 4096"},
        {"1e3", "--num-layers 1000"},
        {"1e99", "--num-layers 1"},
        {"2.5", "--num-layers 1"},
        {"7b", "--num-layers 1"},
        {"v2", "--num-layers 1"},
        {"many", "--num-layers 1"},
        {"", "--num-layers 1"},
        {"$TP", "double quotes in the place of single ones around '$TP', so that the shell replaces it"},
    }));

}  // namespace
