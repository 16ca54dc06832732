// Proves that the readers of run files withstand any bytes: thousands of seeded inputs, and the files that
// would cost memory or time. fuzz_readers reads millions (tests/README.md).

#include "tests/verify/run_arguments/mutated_files.h"

#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_file.h"
#include "verify/run_arguments/run_log.h"

namespace {

using test::at;

std::string refusal_of(const std::string& text) {
  return test::refusal_of([&] { verify::read_run_text(text, {}); });
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// Under a sanitizer fewer files are read, as properties are tried fewer times there.
#ifdef SHARDPROOF_SANITIZED
constexpr std::uint64_t kFiles = 10'000;
#else
constexpr std::uint64_t kFiles = 30'000;
#endif

TEST(MutatedRunFiles, AreReadOrRefusedWithAPlaceAndAReason) {
  for (std::uint64_t seed = 0; seed < kFiles; ++seed) {
    const std::string problem = test::problem_of_reading(test::mutated_file(seed));
    ASSERT_EQ(problem, "") << "file " << seed << "\n" << test::mutated_file(seed);
  }
}

/// Files are changed enough to be refused, and not so much that nothing of a reader is reached.
TEST(MutatedRunFiles, AreMostlyRefusedAndPartlyRead) {
  int read = 0;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed)
    read += refusal_of(test::mutated_file(seed)).empty() ? 1 : 0;
  EXPECT_GT(read, 200);
  EXPECT_LT(read, 1'800);
}

const std::string kLarge = "X=aaaaaaaaaaaaaaaa\n" + repeated("X=$X$X\n", 15);

TEST(CostlyRunFiles, ValuesThatDoubleInABranchAreCut) {
  const std::string doubled = "if x; then\n" + repeated("A=$A$A\n", 60) + "fi\npython x.py --num-layers $A\n";
  EXPECT_EQ(refusal_of(doubled), "");
}

TEST(CostlyRunFiles, ValuesAreBoundedInAll) {
  std::string many = kLarge;
  for (int i = 0; i < 200; ++i) many += "A" + std::to_string(i) + "=$X\n";
  EXPECT_TRUE(refusal_of(many).starts_with("run_file_size at line ")) << refusal_of(many);
  EXPECT_EQ(refusal_of(kLarge + "python x.py --data " + repeated("$X ", 200)),
            at("run_file_size", "line 16"));
  EXPECT_TRUE(refusal_of(kLarge + repeated("python x.py --data $X\n", 200)).starts_with("run_file_size"));
  EXPECT_EQ(refusal_of("U=$V$V$V$V$V$V$V$V$V$V\nU=$U$U$U$U$U$U$U$U$U$U\nU=$U$U$U$U$U$U$U$U$U$U\n"
                       "python x.py --a $U$U$U$U$U$U$U$U$U$U$U --num-layers 4\n"),
            at("run_file_size", "line 3"));
}

TEST(CostlyRunFiles, AnArrayIsNotCopiedForEachOfItsElements) {
  const std::string array = "A=(" + repeated("a ", 9'000) + ")\n";
  EXPECT_EQ(
      refusal_of(array + repeated("x ${A[0]} ${#A[@]} $((A))\n", 20'000) + "python x.py --num-layers 4\n"),
      "");
}

TEST(CostlyRunFiles, ALineOfBlanksInALogIsReadOnce) {
  const std::string blanks(60'000, ' ');
  std::istringstream log("---------- arguments ----------\n" + repeated(blanks + "x y\n", 100) +
                         "  num_layers ...... 4\n---------- end of arguments ----------\n");
  EXPECT_EQ(test::text_of(verify::read_run_log(log)), "num-layers=4");
}

/// yaml-cpp begins such a text as a new document for ever.
TEST(CostlyRunFiles, TextThatTheParserDoesNotTakeEndsIt) {
  EXPECT_EQ(refusal_of("a: 1\n...\n&anchor 1\n? key\n: value\n...\n&anchor 1\n? key\n: value\n"),
            at("run_yaml_syntax", "line 4"));
}

TEST(CostlyRunFiles, DeepNestingIsRefused) {
  for (const char* opening : {"[", "{a: ", "- ", "? "}) {
    const std::string text = "MODEL_ARGS:\n  a: 1\nb:\n " + repeated(opening, 100'000);
    EXPECT_TRUE(refusal_of(text).starts_with("run_yaml_syntax at line ")) << opening << refusal_of(text);
  }
  for (const char* opening : {"${X:-", "$(", "$((", "\"${X:-"}) {
    const std::string text = "python x.py --a " + repeated(opening, 100'000);
    EXPECT_EQ(refusal_of(text), at("script_syntax", "line 1")) << opening;
  }
}

}  // namespace
