// Proves what the commands groups, layers and list print, as text and as JSON, and how the program takes
// its words and scenarios.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run.h"
#include "verify/program/program.h"

namespace {

using nlohmann::ordered_json;

ordered_json json_of(const std::string& command_line) {
  const test::RunResult result = test::run(command_line + " --format json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.err.empty()) << result.err;
  return ordered_json::parse(result.out);
}

TEST(GroupsCommand, JsonHasTheAgreedShape) {
  const ordered_json document = json_of("groups --world-size 16 --tensor-model-parallel-size 2");
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"world_size", "rules", "order", "derived", "groups", "warnings"}));
  EXPECT_EQ(document["world_size"], 16);
  EXPECT_EQ(document["rules"], "megatron");
  EXPECT_EQ(document["order"], "tp-cp-ep-dp-pp");
  EXPECT_EQ(document["derived"].dump(), R"({"dp":8,"etp":2,"edp":8})");
  EXPECT_EQ(document["groups"]["tp"][7].dump(), "[14,15]");
  EXPECT_EQ(document["warnings"].dump(), "[]");
  // With one optimizer instance this is an alias of dp-cp.
  EXPECT_FALSE(document["groups"].contains("intra-dp-cp"));
}

TEST(GroupsCommand, LegacySaysWhatIsEffective) {
  const ordered_json document =
      json_of("groups --rules legacy --world-size 8 --tensor-model-parallel-size 16");
  EXPECT_EQ(document["rules"], "legacy");
  EXPECT_EQ(document["effective"].dump(), R"({"tp":8,"pp":1,"dp":1})");
  EXPECT_EQ(document["warnings"][0]["name"], "size_clamped");
}

/// Returns the embd groups of one pipeline of 4 ranks.
std::string embd(const std::string& options) {
  return json_of("groups --world-size 4 --pp 4 --kind embd " + options)["groups"]["embd"].dump();
}

TEST(GroupsCommand, EmbeddingsAreWhereTheModelHasThem) {
  const std::string layout =
      "--num-layers 4 --mtp-num-layers 1 --pipeline-model-parallel-layout 'Ett|t|tm|L' ";
  EXPECT_EQ(embd(""), "[[0,3]]");
  EXPECT_EQ(embd("--num-layers 4"), "[[0,3]]");
  EXPECT_EQ(embd("--untie-embeddings-and-output-weights"), "[[0]]");
  EXPECT_EQ(embd("--untie-embeddings-and-output-weights --mtp-num-layers 1"), "[[0,3]]");
  EXPECT_EQ(embd(layout), "[[0,2,3]]");
  EXPECT_EQ(embd(layout + "--untie-embeddings-and-output-weights"), "[[0,2]]");
  const test::RunResult wrong = test::run(
      "groups --world-size 4 --pp 4 --mtp-num-layers 1 --num-layers 4 "
      "--pipeline-model-parallel-layout 'Et|t|tt|L'");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("layout_mtp"), std::string::npos) << wrong.err;
}

TEST(GroupsCommand, KindAndRankSelect) {
  const ordered_json document = json_of(
      "groups --world-size 16 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --kind pp,tp "
      "--kind embd --rank 9");
  EXPECT_EQ(document["rank"], 9);
  EXPECT_EQ(document["groups"].dump(), R"({"tp":[[8,9,10,11]],"pp":[[1,9]],"embd":[[1,9]]})");
  // Rank 9 is not in a first stage, so it has no position-embedding group.
  EXPECT_EQ(
      json_of("groups --world-size 16 --pipeline-model-parallel-size 2 --kind pos_embd --rank 9")["groups"]
          .dump(),
      R"({"pos_embd":[]})");
}

TEST(GroupsCommand, LargeWorldsStreamAsOneDocument) {
  const ordered_json document =
      json_of("groups --world-size 65536 --tensor-model-parallel-size 8 --kind tp,dp");
  EXPECT_EQ(document["groups"]["tp"].size(), 8192U);
  EXPECT_EQ(document["groups"]["tp"][8191][7], 65535);
  EXPECT_EQ(document["groups"]["dp"][7].size(), 8192U);
}

TEST(GroupsCommand, TheMappingFlagIsAnOrder) {
  const std::string sizes = "groups --world-size 16 --pipeline-model-parallel-size 2";
  EXPECT_EQ(json_of(sizes + " --use-tp-pp-dp-mapping"), json_of(sizes + " --order tp-cp-ep-pp-dp"));
}

TEST(GroupsCommand, ScenarioIsOverriddenByTheCommandLine) {
  const test::TemporaryFile file("groups.ini",
                                 "# Source: a test\nworld-size = 16\ntensor-model-parallel-size = 4\n"
                                 "hierarchical-context-parallel-sizes = 2 1\ncontext-parallel-size = 2\n");
  EXPECT_EQ(json_of("groups " + file.path() + " --kind tp")["groups"]["tp"].size(), 4U);
  EXPECT_EQ(
      json_of("groups " + file.path() + " --kind tp --tensor-model-parallel-size 2")["groups"]["tp"].size(),
      8U);
  EXPECT_TRUE(json_of("groups " + file.path())["groups"].contains("hcp-L1"));
}

TEST(GroupsCommand, ScenariosAreForgivingAboutBytesAndPlaces) {
  const test::TemporaryFile windows("windows.ini", "\xef\xbb\xbf# Source: a test\r\nworld-size = 16\r\n");
  EXPECT_EQ(json_of("groups --hierarchical-context-parallel-sizes 2 1 " + windows.path() +
                    " --context-parallel-size 2")["groups"]["hcp-L0"]
                .size(),
            8U);
  EXPECT_EQ(ordered_json::parse(
                test::run("replay " + windows.path() + " --format json").out)["scenarios"][0]["source"],
            "a test");
}

TEST(GroupsCommand, FlagsCanBeTakenBack) {
  const test::TemporaryFile file("flag.ini", "world-size = 16\nuse-tp-pp-dp-mapping = true\n");
  EXPECT_EQ(json_of("groups " + file.path())["order"], "tp-cp-ep-pp-dp");
  EXPECT_EQ(json_of("groups " + file.path() + " --use-tp-pp-dp-mapping=false")["order"], "tp-cp-ep-dp-pp");
}

TEST(GroupsCommand, TextIsPlainUnlessOnATerminal) {
  const std::string command =
      "groups --world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2";
  EXPECT_EQ(test::run(command).out.find('\x1b'), std::string::npos);
  std::ostringstream out;
  std::ostringstream err;
  verify::run_program({"groups", "--world-size", "16", "--pipeline-model-parallel-size", "2"},
                      {out, err, true, true});
  EXPECT_NE(out.str().find("\x1b["), std::string::npos);
  // There are two nodes, each of which begins a line with its number, and no line ends in blanks.
  EXPECT_NE(out.str().find("\nnode  0 "), std::string::npos);
  EXPECT_NE(out.str().find("\nnode  1 "), std::string::npos);
  EXPECT_EQ(test::run(command).out.find(" \n"), std::string::npos);
}

TEST(GroupsCommand, WarningsAreSeenInTextToo) {
  const test::RunResult result = test::run(
      "groups --world-size 8 --expert-tensor-parallel-size 2 --expert-model-parallel-size 2 --order "
      "ep-tp-cp-dp-pp");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("warning [dispatcher_order]"), std::string::npos);
}

TEST(GroupsCommand, AGridInsideItsWorldCountsItsOwnNodes) {
  // Ranks 6 to 13 lie on nodes 0 and 1, which have 8 GPUs each.
  const std::string text = test::run("groups --world-size 8 --rank-offset 6").out;
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "8 ranks (6 to 13): tp 1, cp 1, dp 8, pp 1; experts: etp 1, ep 1, edp 8; order tp-cp-ep-dp-pp; 2 "
            "nodes of "
            "8 GPUs");
  EXPECT_EQ(
      test::run("groups --world-size 16 --rank-offset 8 --local-world-size 8 --kind dp").out.substr(0, 17),
      "8 ranks (8 to 15)");
}

TEST(LayersCommand, TheLegacyPipelineIsClampedByItsWorld) {
  const std::string sizes = "layers --rules legacy --num-layers 8 --pipeline-model-parallel-size 8";
  EXPECT_EQ(json_of(sizes)["stages"].size(), 8U);
  const ordered_json clamped = json_of(sizes + " --world-size 4");
  EXPECT_EQ(clamped["stages"].dump(), R"([[{"count":2,"offset":0}],[{"count":2,"offset":2}],)"
                                      R"([{"count":2,"offset":4}],[{"count":2,"offset":6}]])");
  EXPECT_EQ(clamped["warnings"][0]["name"], "size_clamped");
}

TEST(LayersCommand, JsonHasTheAgreedShape) {
  const ordered_json document = json_of("layers --num-layers 12 --pipeline-model-parallel-size 2");
  EXPECT_EQ(document["stages"].dump(), R"([[{"count":6,"offset":0}],[{"count":6,"offset":6}]])");
}

TEST(LayersCommand, LegacyStandaloneStageSaysThatMegatronNumbersOtherwise) {
  const ordered_json document = json_of(
      "layers --rules legacy --num-layers 4 --pipeline-model-parallel-size 3 --standalone-embedding-stage");
  EXPECT_EQ(document["stages"].dump(),
            R"([[{"count":0,"offset":0}],[{"count":2,"offset":0}],[{"count":2,"offset":2}]])");
  EXPECT_EQ(document["warnings"][0]["name"], "standalone_offset");
  EXPECT_EQ(json_of("layers --rules legacy --num-layers 10 --pipeline-model-parallel-size 5 "
                    "--pipeline-model-parallel-split-rank 99")["warnings"][0]["name"],
            "split_rank_ignored");
}

TEST(LayersCommand, LegacyEncoderDecoderPlacesEachSide) {
  const ordered_json document = json_of(
      "layers --rules legacy --num-layers 4 --pipeline-model-parallel-size 3 --encoder-and-decoder "
      "--pipeline-model-parallel-split-rank 2");
  EXPECT_EQ(document["encoder_ranks"], 2);
  EXPECT_EQ(document["stages"].dump(),
            R"([[{"count":2,"offset":0}],[{"count":2,"offset":2}],[{"count":4,"offset":0}]])");
}

TEST(ListCommand, NamesScenariosChecksAndKinds) {
  const ordered_json document = json_of("list");
  EXPECT_GE(document["scenarios"].size(), 24U);
  EXPECT_FALSE(document["checks"].empty());
  EXPECT_FALSE(document["kinds"].empty());
}

TEST(Program, HelpVersionAndNothing) {
  EXPECT_EQ(test::run("--help").exit_code, 0);
  EXPECT_EQ(test::run("--version").out.substr(0, 11), "shardproof ");
  EXPECT_TRUE(json_of("--version").contains("version"));
  EXPECT_EQ(test::run(std::vector<std::string>{}).exit_code, 2);
}

TEST(Program, AResultThatCannotBeWrittenIsNoSuccess) {
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(verify::run_program({"groups", "--world-size", "8"}, {out, err}), 2);
  EXPECT_FALSE(err.str().empty());
}

TEST(GroupsPage, DrawsTheKindsThatHaveSeveralRanks) {
  const test::TemporaryFile page("groups.html", "");
  const test::RunResult result = test::run("groups --world-size 16 --tp 4 --pp 2 --report " + page.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::ostringstream text;
  text << std::ifstream(page.path()).rdbuf();
  const std::string html = text.str();
  EXPECT_NE(html.find("<h3>tp: 4 groups of 4 ranks, none crosses a node</h3>"), std::string::npos) << html;
  EXPECT_NE(html.find("<h3>pp: 8 groups of 2 ranks, 8 cross nodes</h3>"), std::string::npos);
  EXPECT_EQ(html.find("<h3>cp: "), std::string::npos);
  EXPECT_NE(html.find("title=\"rank 9, group 2\">9</span>"), std::string::npos);
}

}  // namespace
