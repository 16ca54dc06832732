// Proves that the page and the JUnit file of a replay contain everything that was found, whatever its
// text. An impossible path is refused before any work, and files are written whole or not at all.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <unistd.h>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/contains.h"
#include "tests/support/refusal_code.h"
#include "tests/support/run.h"
#include "verify/output/markup.h"
#include "verify/output/output_file.h"
#include "verify/report/replay_forms.h"

namespace {

using test::contains;

namespace fs = std::filesystem;
using verify::report_html;
using verify::report_junit;
using verify::ScenarioReport;

constexpr const char* kHostile = "<script>alert(\"1\" & '2')</script> ]]> \x01\x1b[31m \xff\xc3 \xed\xa0\x80";

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Returns the first thing that XML forbids, or "". Tags must be balanced, attributes quoted, and & must
/// begin a reference.
std::string malformation(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 && c != '\n') return "a control character";
    if (c == '&') {
      const std::size_t end = text.find(';', at);
      if (end == std::string::npos || end - at > 6) return "a bare & at " + text.substr(at, 40);
    }
    if (c != '<') continue;
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (contains(tag, "<") || occurrences(tag, "\"") % 2 != 0) return "a broken tag: " + tag;
    at = end;
    if (tag.starts_with("?") || tag.starts_with("!DOCTYPE") || tag.ends_with("/")) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with("/")) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A folder of its own, which is removed with its contents.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::path(testing::TempDir()) / ("shardproof-" + std::to_string(getpid()) + "-" + name)) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::ptrdiff_t size() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

struct Written {
  test::RunResult result;
  std::string page;
  std::string junit;
};

/// Replays without the training, which would take a second.
Written replayed(const std::string& options) {
  const Folder folder("replayed");
  const std::string page = folder.file("page.html"), junit = folder.file("junit.xml");
  Written written;
  written.result =
      test::run("replay " + options + " --train-iters 0 --report '" + page + "' --junit '" + junit + "'");
  written.page = contents(page);
  written.junit = contents(junit);
  EXPECT_EQ(folder.size(), 2) << "something else was left in the folder";
  return written;
}

void expect_well_formed(const Written& written) {
  EXPECT_EQ(malformation(written.page), "");
  EXPECT_EQ(malformation(written.junit), "");
}

ScenarioReport hostile_report() {
  ScenarioReport report;
  report.name = report.path = report.source = report.reproduce = report.no_schedule = kHostile;
  report.checks = {{kHostile, true, kHostile}, {kHostile, false, kHostile}};
  report.warnings = {{kHostile, kHostile}};
  report.refusal = sim::Refusal{kHostile, kHostile, kHostile, kHostile, kHostile};
  report.ledger = {{.kind = kHostile, .site = kHostile}};
  report.findings = {
      {.code = kHostile, .sentence = kHostile, .calls = {}, .rule = kHostile, .hint = kHostile}};
  report.training = verify::TrainingCurve{kHostile, kHostile, {1}, {1}, {1}};
  return report;
}

TEST(Report, TheCheckerOfTagsSeesWhatIsWrong) {
  EXPECT_EQ(malformation("<?xml version=\"1.0\"?>\n<a b=\"c\"><d/>&lt;&#39;</a>\n"), "");
  for (const char* bad :
       {"<a>", "<a></b>", "</a>", "<a", "<a b=\"c></a>", "a & b", "<a>\x01</a>", "<a><</a>"})
    EXPECT_NE(malformation(bad), "") << bad;
}

TEST(Report, EveryCheckOfARunIsOnThePageAndInTheJunitFile) {
  const std::string options =
      "scenarios/published/seed-002-moe.ini scenarios/published/narayanan-2021-1p7b.ini --expect-groups "
      "'tp [0]'";
  const Written written = replayed(options + " --format json");
  EXPECT_EQ(written.result.exit_code, 1);
  expect_well_formed(written);
  std::size_t rows = 0;
  const auto document = nlohmann::json::parse(written.result.out);
  for (const auto& scenario : document["scenarios"]) {
    for (const auto& check : scenario["checks"]) {
      ++rows;
      const std::string name = verify::markup_text(check["check"].get<std::string>());
      const std::string detail = verify::markup_text(check["detail"].get<std::string>());
      EXPECT_TRUE(contains(written.page, "<td>" + name + "</td><td class=\"wide\">" + detail + "</td>"))
          << name;
      EXPECT_TRUE(contains(written.junit, " name=\"" + name + "\"")) << name;
      const bool is_failure = contains(written.junit, "message=\"" + detail + "\"");
      EXPECT_EQ(is_failure, !check["holds"].get<bool>()) << name;
    }
  }
  EXPECT_EQ(occurrences(written.junit, "<testcase "), rows);
  EXPECT_EQ(occurrences(written.junit, "<testsuite "), 2U);
  EXPECT_TRUE(contains(written.page, "<a href=\"#s2\">")) << "the summary has a link to each scenario";
  EXPECT_TRUE(contains(written.page, "<section id=\"s2\">"));
}

TEST(Report, ThePageNeedsNothingFromElsewhere) {
  const Written written = replayed("scenarios/published/seed-002-moe.ini");
  for (const char* outside : {"<script", "<link", "<img", "url(", "@import", " src=", "https:"})
    EXPECT_FALSE(contains(written.page, outside)) << outside;
  EXPECT_EQ(occurrences(written.page, "http:"),
            occurrences(written.page, "xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(contains(written.page, "prefers-color-scheme: dark"));
}

TEST(Report, StandardOutputIsAsWithoutFiles) {
  const std::string options = "scenarios/published/seed-002-dense.ini --format json";
  const Written written = replayed(options);
  EXPECT_EQ(written.result.out, test::run("replay " + options + " --train-iters 0").out);
  EXPECT_EQ(written.result.err, "");
}

TEST(Report, TheSameReplayGivesTheSameBytes) {
  const std::string options =
      "scenarios/published/seed-002-moe.ini scenarios/diagnosis/diagnosis-missing-rank.ini";
  const Written first = replayed(options), second = replayed(options);
  EXPECT_EQ(first.page, second.page);
  const std::regex time(" time=\"[0-9]+\\.[0-9]{3}\"");  // of the clock, which readers of JUnit want
  EXPECT_EQ(std::regex_replace(first.junit, time, ""), std::regex_replace(second.junit, time, ""));
  EXPECT_FALSE(contains(std::regex_replace(first.junit, time, ""), " time="));
}

TEST(Report, EachTestcaseHasItsSeconds) {
  const Written written = replayed("--world-size 4 --tensor-model-parallel-size 2");
  EXPECT_EQ(occurrences(written.junit, " time=\""),
            occurrences(written.junit, "<testcase ") + occurrences(written.junit, "<testsuite "));
  ScenarioReport report;
  report.name = "a scenario";
  report.checks = {{"slow", true, ""}, {"instant", true, ""}};
  EXPECT_FALSE(contains(report_junit({report}), "time=")) << "nothing was measured";
  report.seconds = {{"slow", 1.25}, {"other", 0.5}};
  const std::string junit = report_junit({report});
  EXPECT_TRUE(contains(junit, "name=\"slow\" time=\"1.250\"")) << junit;
  EXPECT_TRUE(contains(junit, "name=\"instant\" time=\"0.")) << junit;
  EXPECT_TRUE(contains(junit, "skipped=\"0\" time=\"1.750\">")) << junit;
}

TEST(Report, ThePageListsTheOptionsOfTheRun) {
  const Written written = replayed("scenarios/published/seed-002-dense.ini --gpus-per-node 4");
  const std::size_t begin = written.page.find("<h3>Options</h3>\n<pre>");
  ASSERT_NE(begin, std::string::npos);
  const std::string listed = written.page.substr(begin, written.page.find("</pre>", begin) - begin);
  for (const char* option :
       {"--gpus-per-node 4\n", "--train-iters 0\n", "--world-size 16\n", "--tensor-model-parallel-size 4\n"})
    EXPECT_TRUE(contains(listed, option)) << option << listed;
}

TEST(Report, AnyTextStaysText) {
  const std::vector<ScenarioReport> reports = {hostile_report()};
  const std::string page = report_html(reports), junit = report_junit(reports);
  EXPECT_EQ(malformation(page), "");
  EXPECT_EQ(malformation(junit), "");
  EXPECT_FALSE(contains(page, "<script"));
  EXPECT_FALSE(contains(page, "\xff"));
  EXPECT_GT(occurrences(page, "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)"), 10U);
  EXPECT_FALSE(contains(junit, "]]>"));
}

TEST(Report, HostileNamesOfFilesAndOptionsStayText) {
  const test::TemporaryFile file(
      "<b>&amp;\"x'.ini", "# Source: <i>&</i> \"q\"\nworld-size = 6\ntensor-model-parallel-size = 4\n");
  const Folder folder("hostile");
  test::run({"replay", file.path(), "--order", "<u>&\"\x02\xfe", "--report", folder.file("p.html"), "--junit",
             folder.file("j.xml")});
  expect_well_formed({{}, contents(folder.file("p.html")), contents(folder.file("j.xml"))});
  for (const char* tag : {"<b>", "<i>", "<u>"})
    EXPECT_FALSE(contains(contents(folder.file("p.html")), tag)) << tag;
}

TEST(Report, MarkupKeepsWhatXmlAllowsAndNothingElse) {
  EXPECT_EQ(verify::markup_text("a<b>&\"'\n\tc"), "a&lt;b&gt;&amp;&quot;&#39;&#10;&#9;c");
  EXPECT_EQ(verify::markup_text("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(verify::markup_text("\xC0\xAF"), replaced + replaced);  // an encoding that is longer than needed
  EXPECT_EQ(verify::markup_text("\xED\xA0\x80"), replaced + replaced + replaced);  // half of a surrogate pair
  EXPECT_EQ(verify::markup_text("\xEF\xBF\xBF"), replaced + replaced + replaced);  // not a character
  EXPECT_EQ(verify::markup_text("\xF0\x9F"), replaced + replaced);
  EXPECT_EQ(verify::markup_text(std::string("\0\x07\x1b\x7f", 4)), "");
}

TEST(Report, ARefusalAndAFindingAreErrorsWithALineThatReproducesThem) {
  const Written refused = replayed("--world-size 6 --tensor-model-parallel-size 4");
  EXPECT_EQ(refused.result.exit_code, 2);
  expect_well_formed(refused);
  EXPECT_TRUE(contains(refused.junit, "<error type=\"dense_div\""));
  EXPECT_TRUE(contains(refused.junit, "tests=\"1\" failures=\"0\" errors=\"1\""));
  EXPECT_TRUE(contains(refused.page, "<th>rule</th>"));
  EXPECT_TRUE(contains(
      refused.page,
      "<pre>./shardproof replay --tensor-model-parallel-size 4 --train-iters 0 --world-size 6</pre>"));
  const Written broken = replayed("--world-size 2 --program mutual_send");
  EXPECT_EQ(broken.result.exit_code, 3);
  expect_well_formed(broken);
  EXPECT_TRUE(contains(broken.junit, "<error type=\"deadlock\""));
  EXPECT_TRUE(contains(broken.page, "<h3>Findings</h3>"));
  const Written expected = replayed("--world-size 2 --program mutual_send --expect-finding deadlock");
  EXPECT_TRUE(contains(expected.junit, "failures=\"0\" errors=\"0\""));
  EXPECT_TRUE(contains(expected.page, "<h3>Findings, as expected</h3>"));
}

TEST(Report, ChecksOfOneNameAreTestcasesOfTheirOwn) {
  const Written written = replayed("--world-size 2 --expect-groups 'dp [0,1]' --expect-groups 'dp [0,1]'");
  EXPECT_TRUE(contains(written.junit, "name=\"expected dp\""));
  EXPECT_TRUE(contains(written.junit, "name=\"expected dp (2)\""));
}

TEST(Report, LayoutsBringRanksScheduleLedgerAndMemory) {
  const std::string shape =
      " --num-layers 8 --hidden-size 64 --num-attention-heads 4 --vocab-size 512 --seq-length 32";
  const Written written = replayed(
      "--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --global-batch-size "
      "16 "
      "--schedule uniform --virtual-pipeline-model-parallel-size 2" +
      shape);
  EXPECT_EQ(written.result.exit_code, 0) << written.result.out;
  expect_well_formed(written);
  EXPECT_EQ(occurrences(written.page, "<div class=\"node\">"), 2U);
  EXPECT_TRUE(contains(written.page, "<span class=\"g1\">2<small>t0d1p0</small></span>"));
  EXPECT_TRUE(
      contains(written.page, "interleaved: 8 microbatches in groups of 4 on 4 pipeline ranks of 2 chunks"));
  EXPECT_EQ(occurrences(written.page, "class=\"step\""), 4U * 8 * 2 * 2);
  EXPECT_TRUE(contains(written.page, "<h3>Memory of a rank, by pipeline stage</h3>"));
  EXPECT_TRUE(contains(written.page, "<h3>Bytes sent, by group kind</h3>"));
}

TEST(Report, WhatIsNotDrawnIsSaid) {
  const std::string large = "--world-size 1024 --pipeline-model-parallel-size 2 ";
  const std::string page = replayed(large).page;
  EXPECT_TRUE(contains(page, "Only the first 64 ranks of 1024 are drawn."));
  EXPECT_TRUE(
      contains(page, "Not drawn: the scenario gives neither num-microbatches nor global-batch-size."));
  const std::string small = "--world-size 2 --pipeline-model-parallel-size 2 --num-microbatches ";
  EXPECT_EQ(occurrences(replayed(small + "256").page, "class=\"gantt\""), 1U);
  for (const char* microbatches : {"100000", "16000000"})
    EXPECT_TRUE(contains(replayed(small + microbatches).page, "Not drawn: "));
  // No schedule takes these chunks.
  const Written odd = replayed(
      small +
      "3 --virtual-pipeline-model-parallel-size 2 --microbatch-group-size-per-virtual-pipeline-stage 1");
  EXPECT_EQ(odd.result.exit_code, 2);
  EXPECT_TRUE(contains(odd.page, "microbatch_group_size"));
}

TEST(Report, ALongScheduleHasItsFirstAndItsLastSteps) {
  const std::string page =
      replayed("--world-size 2 --pipeline-model-parallel-size 2 --num-microbatches 1000").page;
  EXPECT_EQ(occurrences(page, "class=\"gantt\""), 2U);
  EXPECT_TRUE(contains(page, ": time 0 to 256 of 2002</text>"));
  EXPECT_TRUE(contains(page, ": time 1746 to 2002 of 2002</text>"));
  EXPECT_TRUE(contains(page, "F 0 of chunk 0, time 0 to 1</title>"));
  EXPECT_TRUE(contains(page, "B 999 of chunk 0, time 2001 to 2002</title>"));
  EXPECT_FALSE(contains(page, "F 500 of chunk 0, "));
  EXPECT_EQ(occurrences(page, "class=\"step\""), 4U * 256 - 4);  // but for the bubble at both ends
}

TEST(Report, RanksKeepTheirNumbersWhereverTheGridBegins) {
  const std::string page = replayed("--world-size 4 --rank-offset 6 --gpus-per-node 8").page;
  EXPECT_TRUE(contains(page, "node 0<div class=\"ranks\"><span class=\"g0\">6<small>d0</small>"));
  EXPECT_TRUE(contains(page, "node 1<div class=\"ranks\"><span class=\"g2\">8<small>d2</small>"));
}

TEST(Report, OneNodeOfManyGpusIsCut) {
  const sim::Layout layout = sim::make_layout({.world_size = 4096}, sim::RuleBook::megatron);
  const std::string html = verify::rank_grid_html(layout, {.gpus_per_node = 4096});
  EXPECT_EQ(occurrences(html, "<span class=\"g"), static_cast<std::size_t>(verify::kMostDrawnRanks));
  EXPECT_TRUE(contains(html, "Only the first 512 ranks of 4096 are drawn."));
}

TEST(Report, ATrainingIsDrawnWithItsValues) {
  ScenarioReport report;
  report.name = "trained";
  report.training = verify::TrainingCurve{"tp 4, pp 2, dp 2 for 128", "4 layers", {4.5, 3.25, 3},
                                          {4.5, 3.25, 2.75},          {1, 1, 1},  true};
  const std::string page = report_html({report});
  EXPECT_EQ(malformation(page), "");
  EXPECT_EQ(occurrences(page, "<path class=\"line"), 2U);
  EXPECT_TRUE(contains(page, "<td class=\"number\">2.75</td><td class=\"number\">0.25</td>"));
  EXPECT_TRUE(contains(page, "M70.0 20.0h1L270.0"));
}

TEST(Report, LossesThatAreNoNumbersBreakTheLineOnly) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<double>::max();
  ScenarioReport report;
  for (const std::vector<double>& losses : std::vector<std::vector<double>>{
           {}, {1}, {nan}, {nan, nan}, {2, 2}, {1, nan, 2, HUGE_VAL}, {-most, most}}) {
    report.training = verify::TrainingCurve{"", "", losses, losses, {}};
    const std::string page = report_html({report});
    EXPECT_EQ(malformation(page), "");
    const std::size_t chart = page.find("<svg"), end = page.find("</svg>");
    const std::string drawn = chart == std::string::npos ? "" : page.substr(chart, end - chart);
    EXPECT_FALSE(contains(drawn, "nan") || contains(drawn, "inf")) << drawn;
  }
}

TEST(Report, ABadPathIsRefusedBeforeAnyWork) {
  // Proving this world would take seconds, and refusing it would give another code.
  const std::string too_large = "replay --world-size 1048577 --report no/such/folder/x.html";
  const test::RunResult result = test::run(too_large);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "refused [report_file]"));
  EXPECT_TRUE(contains(result.err, "'no/such/folder/x.html' lies in a folder that does not exist"));
}

TEST(Report, NothingIsLeftWhenTheOtherPathIsRefused) {
  const Folder folder("refused");
  EXPECT_EQ(
      test::run("replay --world-size 2 --junit no/such/folder/x.xml --report '" + folder.file("p.html") + "'")
          .exit_code,
      2);
  EXPECT_EQ(folder.size(), 0);
}

TEST(OutputFile, ReplacesAWholeFileAndFollowsALink) {
  const Folder folder("links");
  std::ofstream(folder.file("old.html")) << "old";
  fs::create_symlink("old.html", folder.file("link.html"));
  const verify::OutputFile file("report", folder.file("link.html"));
  EXPECT_EQ(contents(folder.file("old.html")), "old");
  file.write("new");
  EXPECT_EQ(contents(folder.file("old.html")), "new");
  EXPECT_TRUE(fs::is_symlink(folder.file("link.html")));
  EXPECT_EQ(folder.size(), 2);
}

TEST(OutputFile, FollowsALinkToNothingYet) {
  const Folder folder("dangling");
  fs::create_symlink("later.html", folder.file("link.html"));
  const verify::OutputFile file("report", folder.file("link.html"));
  file.write("page");
  EXPECT_TRUE(fs::is_symlink(folder.file("link.html")));
  EXPECT_EQ(contents(folder.file("later.html")), "page");
  const verify::OutputFile same("junit", folder.file("later.html"));
  EXPECT_EQ(test::refusal_code([&] { same.require_differs_from(file); }), "junit_file");
}

TEST(OutputFile, KeepsPermissionsAndInputs) {
  const Folder folder("kept");
  const std::string path = folder.file("page.html");
  std::ofstream(path) << "old";
  const auto only_ours = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(path, only_ours);
  const verify::OutputFile file("report", path);
  file.write("new");
  EXPECT_EQ(fs::status(path).permissions(), only_ours);
  EXPECT_EQ(test::refusal_code([&] { file.require_is_no_input(path); }), "report_file");
  file.require_is_no_input(folder.file("another.html"));
}

TEST(OutputFile, AFolderThatWentAwayIsARefusal) {
  const Folder folder("gone");
  const std::string inner = folder.file("inner");
  fs::create_directory(inner);
  const verify::OutputFile file("junit", inner + "/x.xml");
  fs::remove(inner);
  try {
    file.write("text");
    FAIL() << "not refused";
  } catch (const sim::Error& error) {
    EXPECT_EQ(error.refusal().code, "junit_file");
    EXPECT_TRUE(contains(error.refusal().numbers, "could not be written"));
  }
}

}  // namespace
