// Proves that outcomes become JUnit XML and annotations of GitHub Actions, well-formed for any text, and that an
// option is found at its line in a script, a scenario, YAML and a log.

#include "verify/output/outcomes.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/run.h"

namespace {

using test::contains;
using verify::OutcomeSuite;

OutcomeSuite suite_of(const std::string& file) {
  return {.name = "a<b",
          .file = file,
          .outcomes = {{.name = "holds"},
                       {.name = "holds"},
                       {.name = "fails",
                        .problem = "failure",
                        .type = "check",
                        .message = "50 %, or\nmore",
                        .option = "--tensor-model-parallel-size"}}};
}

TEST(Outcomes, BecomeJUnit) {
  const std::string xml = verify::junit_text("shardproof check", {suite_of("")});
  EXPECT_TRUE(contains(xml, "<testsuites name=\"shardproof check\" tests=\"3\" failures=\"1\" errors=\"0\""));
  EXPECT_TRUE(contains(xml, "classname=\"a&lt;b\" name=\"holds (2)\"/>")) << xml;
  EXPECT_TRUE(contains(xml, "<failure type=\"check\" message=\"50 %")) << xml;
}

TEST(Outcomes, BecomeAnnotations) {
  EXPECT_EQ(verify::annotations_text({suite_of("")}), "::error title=a<b%3A fails::50 %25, or%0Amore\n");
  EXPECT_EQ(verify::annotations_text({suite_of("no file.sh")}),
            "::error file=no file.sh,line=1,title=a<b%3A fails::50 %25, or%0Amore\n");
}

TEST(Outcomes, AnOptionIsFoundAtItsLastLine) {
  const auto line_in = [](const std::string& text) {
    const test::TemporaryFile file("job", text);
    return verify::line_of_option(file.path(), "--num-layers");
  };
  EXPECT_EQ(line_in("# --num-layers 2\nx --num-layers-per-virtual 3\n --num-layers 4 \\\n"), 3);
  EXPECT_EQ(line_in("--num-layers 1\n--num_layers=2\n"), 2);
  EXPECT_EQ(line_in("num-layers = 4\n"), 1);
  EXPECT_EQ(line_in("MODEL_ARGS:\n  --num-layers: 4\n"), 2);
  EXPECT_EQ(line_in("[0]:   num_layers ................ 4\n"), 1);
  EXPECT_EQ(line_in("my-num-layers 4\n"), 0);
}

TEST(Outcomes, ARefusalIsAnnotatedAtTheLineOfItsOption) {
  const test::TemporaryFile file("job.ini",
                                 "# Source: a test\nworld-size = 6\ntensor-model-parallel-size = 4\n");
  const test::RunResult result = test::run({"groups", file.path(), "--format", "github"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.out, "::error file=") && contains(result.out, "job.ini,line=2,title="))
      << result.out;
}

TEST(Outcomes, CheckWritesThemIntoAFile) {
  const test::TemporaryFile file("checks.xml", "");
  const test::RunResult result =
      test::run("check --case mlp --property agree --dtype field --runs 2 --junit " + file.path());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::ostringstream text;
  text << std::ifstream(file.path(), std::ios::binary).rdbuf();
  const std::string xml = text.str();
  EXPECT_TRUE(contains(xml, "<testsuite name=\"mlp\" tests=\"1\"")) << xml;
  EXPECT_TRUE(contains(xml, "name=\"agree\"/>")) << xml;
}

}  // namespace
