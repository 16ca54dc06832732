// Proves what the command schedule draws, and that a drawing that does not fit is cut and says so.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/contains.h"
#include "tests/support/run.h"
#include "verify/program/program.h"

namespace {

using nlohmann::json;
using test::contains;

std::string shown(const std::string& options) {
  const test::RunResult result = test::run("schedule " + options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(ScheduleCommand, DrawsEveryScheduleWithItsBubble) {
  const std::string sizes = "--pipeline-model-parallel-size 2 --num-microbatches 4 ";
  EXPECT_TRUE(contains(shown(sizes + "--schedule none"), "the bubble is 1 of the work"));
  EXPECT_TRUE(contains(shown(sizes + "--schedule gpipe"), "the bubble is 1/4 of the work"));
  EXPECT_TRUE(contains(shown(sizes + "--schedule 1f1b"), "the bubble is 1/4 of the work"));
  EXPECT_EQ(shown(sizes), shown(sizes + "--schedule 1f1b"));
  const std::string interleaved = shown(sizes + "--virtual-pipeline-model-parallel-size 2");
  EXPECT_TRUE(contains(interleaved, "the bubble is 1/8 of the work"));
  EXPECT_TRUE(contains(interleaved, "\nrank 1  .   F0a F1a F0b B0b F1b B1b F2a B0a "));
  EXPECT_TRUE(contains(shown("--num-microbatches 2"), "the bubble is 0 of the work"));
  EXPECT_TRUE(contains(shown("--num-microbatches 2"), "\nrank 0  F0 B0 F1 B1\n"));
}

/// The layers of a scenario lie on two stages of each rank, or on one.
TEST(ScheduleCommand, ALayoutOfThePipelineSaysHowManyChunksThereAre) {
  const auto of_scenario = [](const std::string& more) {
    const test::TemporaryFile file("layout.ini",
                                   "world-size = 2\npipeline-model-parallel-size = 2\nnum-layers = 4\n"
                                   "num-microbatches = 4\n" +
                                       more + "\n");
    return shown(file.path());
  };
  EXPECT_EQ(of_scenario("pipeline-model-parallel-layout = Et|t|t|tL"),
            of_scenario("virtual-pipeline-model-parallel-size = 2"));
  EXPECT_EQ(of_scenario("pipeline-model-parallel-layout = Ett|ttL"), of_scenario(""));
}

TEST(ScheduleCommand, ALongerStepIsDrawnLonger) {
  const std::string text = shown("--num-microbatches 2 --backward-cost 3");
  EXPECT_TRUE(contains(text, "\nrank 0  F0 B0------ F1 B1------\n")) << text;
}

TEST(ScheduleCommand, WhatIsTooWideOrTooHighIsCutAndSaid) {
  std::ostringstream out, err;
  const std::vector<std::string> words = {"schedule", "--pipeline-model-parallel-size", "70",
                                          "--num-microbatches", "90"};
  for (const int columns : {0, 1, 40, 100}) {
    out.str("");
    EXPECT_EQ(verify::run_program(words, {.out = out, .err = err, .columns = columns}), 0);
    std::istringstream chart(out.str().substr(out.str().find("\ntime")));
    for (std::string line; std::getline(chart, line);) {
      const bool is_row = line.starts_with("rank");
      EXPECT_TRUE(!is_row || static_cast<int>(line.size()) <= std::max(columns, 12)) << line;
    }
    EXPECT_TRUE(contains(out.str(), "and 6 more ranks\n"));
    EXPECT_TRUE(contains(out.str(), "of 318: a wider terminal shows more, and --svg FILE shows all of it\n"));
  }
  out.str("");
  EXPECT_EQ(verify::run_program(words, {.out = out, .err = err, .columns = 10'000}), 0);
  EXPECT_FALSE(contains(out.str(), "cut at"));
}

TEST(ScheduleCommand, ColoursOnlyWhereTheyAreWanted) {
  std::ostringstream out, err;
  const std::vector<std::string> words = {"schedule", "--num-microbatches", "2"};
  verify::run_program(words, {.out = out, .err = err, .colour = true});
  EXPECT_TRUE(contains(out.str(), "\x1b["));
  EXPECT_FALSE(contains(shown("--num-microbatches 2"), "\x1b["));
}

TEST(ScheduleCommand, JsonHoldsWhatWasWritten) {
  const test::RunResult result =
      test::run("schedule --pipeline-model-parallel-size 2 --num-microbatches 1 --format json");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const json document = json::parse(result.out);
  EXPECT_EQ(document["schedule"], "1f1b");
  EXPECT_EQ(document["work"], 2);
  EXPECT_EQ(document["bubble"], 2);
  EXPECT_EQ(document["ranks"][1]["seq"], json::parse(R"([["F",0,0],["B",0,0]])"));
  EXPECT_EQ(document["ranks"][1]["peak_live"], 1);
}

TEST(ScheduleCommand, AScenarioGivesItsMicrobatches) {
  const std::string of_layout =
      "--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --global-batch-size "
      "48 "
      "--micro-batch-size 2";  // 48 / (2 * 4 replicas)
  EXPECT_TRUE(contains(shown(of_layout), "1f1b: 6 microbatches on 2 pipeline ranks\n"));
  EXPECT_TRUE(
      contains(shown(of_layout + " --num-microbatches 3"), "1f1b: 3 microbatches on 2 pipeline ranks\n"));
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ScheduleCommand, SvgHasEveryStep) {
  const test::TemporaryFile file("schedule.svg", "");
  const std::string options =
      "--pipeline-model-parallel-size 4 --num-microbatches 8 --virtual-pipeline-model-parallel-size 2";
  EXPECT_EQ(shown(options + " --svg '" + file.path() + "'"), shown(options));
  std::ostringstream text;
  text << std::ifstream(file.path()).rdbuf();
  const std::string svg = text.str();
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_TRUE(contains(svg, "prefers-color-scheme: dark"));
  EXPECT_EQ(occurrences(svg, "class=\"step\""), 4U * 2 * 8 * 2);
  EXPECT_EQ(occurrences(svg, "class=\"lane\""), 4U);
  EXPECT_EQ(occurrences(svg, "<g>"), occurrences(svg, "</g>"));
  EXPECT_EQ(occurrences(svg, "href"), 0U);  // nothing is loaded from elsewhere
}

TEST(ScheduleCommand, ARefusedSvgLeavesStandardOutputToTheRefusal) {
  const test::RunResult result =
      test::run("schedule --num-microbatches 2 --svg no/such/folder/x.svg --format json");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(json::parse(result.out)["error"]["code"], "svg_file");
}

}  // namespace
