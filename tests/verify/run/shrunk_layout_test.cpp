// A layout that is wrong is made smaller: which runs are tried, and that the smallest wrong one is found.

#include "verify/run/shrunk_layout.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <set>

#include "tests/verify/run/guest_test.h"
#include "verify/run/layout_words.h"

namespace {

using test::has;
using verify::CommandLine;
using verify::LayoutInWords;
using verify::LayoutsRequest;
using verify::LayoutsRun;

/// Returns a layout whose words have these sizes; 1 leaves the word out.
std::string drawn_words() {
  std::string words;
  for (const char* name : {"tp", "pp", "dp", "vpp"}) {
    const int size = *rc::gen::inRange(1, 7);
    if (size > 1) words += fmt::format("{}{} ", name, size);
  }
  for (const char* flag : {"sp", "zero"})
    if (*rc::gen::arbitrary<bool>()) words += fmt::format("{} ", flag);
  return words.empty() ? "dp1" : words.substr(0, words.size() - 1);
}

RC_GTEST_PROP(ShrunkLayout, SmallerLayoutsAreSmallerAndKeepTheOptions, ()) {
  const std::string others = *rc::gen::element("", " --bf16 --seq-length 8");
  const std::string words = drawn_words() + others;
  const std::vector<std::string> smaller = verify::smaller_layouts(words);
  const LayoutInWords before = verify::layout_in_words(words);
  std::set<std::string> all;
  for (const std::string& each : smaller) {
    const LayoutInWords layout = verify::layout_in_words(each);
    RC_ASSERT(each.ends_with(others));
    RC_ASSERT(layout.ranks() <= before.ranks());
    RC_ASSERT(layout.others == before.others);
    RC_ASSERT(all.insert(each).second);
    RC_ASSERT(each != words);
  }
  RC_ASSERT(smaller.empty() == words.starts_with("dp1"));
}

CommandLine line_of(const std::string& layouts, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"run", "--layouts", layouts, "--shrink", "--", "python3", "-m", "train"};
  all.insert(all.end(), words.begin(), words.end());
  return verify::parse_command_line(all);
}

/// What a run of a layout asks for.
struct Asked {
  LayoutInWords layout;
  std::int64_t layers = 0, samples = 0;
};

std::int64_t last_number(const std::vector<std::string>& words, const std::string& option) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == option) number = std::stoll(words[i + 1]);
  return number;
}

Asked asked_of(const LayoutsRequest& request) {
  const std::vector<std::string>& words = request.layouts[0].request.words;
  return {verify::layout_in_words(request.layouts[0].name), last_number(words, "--num-layers"),
          last_number(words, "--global-batch-size")};
}

/// The run of a program that tells its arguments, and is wrong if `fails` says so.
LayoutsRun run_that(bool fails, const Asked& asked) {
  nlohmann::json told = {{"shardproof_run", 1}, {"kind", "log"}, {"name", "the program"}, {"arguments", {}}};
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"num_layers", asked.layers}, {"global_batch_size", asked.samples}, {"micro_batch_size", 1}};
  for (const auto& [name, number] : numbers)
    told["arguments"].push_back({{"name", name}, {"values", {std::to_string(number)}}});
  told["world"] = {{"ranks", 1}, {"from", "the ranks of this run"}};
  LayoutsRun run{.told = told.dump()};
  verify::LayoutRun layout{.name = asked.layout.name, .run = {}, .compared = {}};
  layout.compared.values = 1;
  if (fails) layout.compared.wrong.push_back({.key = {.name = "x"}, .ranks = {0}, .what = "it is zero"});
  run.layouts.push_back(std::move(layout));
  return run;
}

verify::ShrunkLayout shrunk_with(const CommandLine& line, const std::string& layout,
                                 const std::function<bool(const Asked&)>& fails) {
  return verify::shrunk_layout(line, "shardproof", layout, [&](const LayoutsRequest& request) {
    const Asked asked = asked_of(request);
    return run_that(fails(asked), asked);
  });
}

/// A mistake that needs so many tp ranks, layers and samples is found with just these.
RC_GTEST_PROP(ShrunkLayout, NothingOfTheSmallestCanBeLeftOutAlone, ()) {
  const std::int64_t tp = *rc::gen::element(1, 2, 4), layers = *rc::gen::inRange(1, 9);
  const bool needs_zero = *rc::gen::arbitrary<bool>();
  const CommandLine line =
      line_of("pp2; tp4 pp2 dp2 sp zero", {"--num-layers", "8", "--global-batch-size", "16"});
  const verify::ShrunkLayout shrunk = shrunk_with(line, "tp4 pp2 dp2 sp zero", [&](const Asked& asked) {
    return asked.layout.tp >= tp && asked.layers >= layers &&
           (!needs_zero || asked.layout.has_distributed_optimizer);
  });
  RC_ASSERT(shrunk.request.has_value());
  const Asked smallest = asked_of(*shrunk.request);
  RC_ASSERT(smallest.layout.tp == tp);
  RC_ASSERT(smallest.layers == layers);
  RC_ASSERT(smallest.samples == 1);
  RC_ASSERT(smallest.layout.ranks() == tp);
  RC_ASSERT(smallest.layout.has_distributed_optimizer == needs_zero);
  RC_ASSERT(!smallest.layout.is_sequence_parallel);
  const std::string text = verify::shrunk_text(shrunk);
  RC_ASSERT(has(text, "it is zero"));
  RC_ASSERT(has(text, fmt::format("run --layouts {}", verify::text_of(std::vector{smallest.layout.name}))));
  RC_ASSERT(!has(text, "--shrink"));
  RC_ASSERT(has(text, fmt::format(" with --global-batch-size 1{} on ",
                                  layers < 8 ? fmt::format(" --num-layers {}", layers) : "")));
}

TEST(ShrunkLayout, AProgramThatTellsNoNumbersKeepsIts) {
  const CommandLine line = line_of("tp2 zero", {});
  const auto shrunk =
      verify::shrunk_layout(line, "shardproof", "tp2 zero", [](const LayoutsRequest& request) {
        LayoutsRun run = run_that(true, asked_of(request));
        run.told = "";
        return run;
      });
  EXPECT_EQ(shrunk.run.layouts.at(0).name, "dp1");
  EXPECT_EQ(asked_of(*shrunk.request).layers, 0);
  EXPECT_TRUE(has(verify::shrunk_json(shrunk).dump(), "it is zero"));
}

TEST(ShrunkLayout, EndsWithAProgramThatTellsTheSameWhateverItIsGiven) {
  const auto shrunk =
      verify::shrunk_layout(line_of("tp2", {}), "shardproof", "tp2", [](const LayoutsRequest& request) {
        return run_that(true, {asked_of(request).layout, 4, 8});
      });
  EXPECT_EQ(shrunk.run.layouts.at(0).name, "dp1");
  EXPECT_LT(shrunk.tries, 20);
}

TEST(ShrunkLayout, OneThatHoldsInAnotherRunIsSaid) {
  const auto shrunk = shrunk_with(line_of("tp2", {}), "tp2", [](const Asked&) { return false; });
  EXPECT_EQ(verify::shrunk_text(shrunk), "\nshrunk     tp2: it holds in another run\n");
  EXPECT_TRUE(verify::shrunk_json(shrunk).is_null());
}

class ShrunkRun : public test::WithPython {};

/// The whole way: a program that is wrong on two ranks and more.
TEST_F(ShrunkRun, IsToldBehindTheComparison) {
  const std::string program = std::string(test::kGuestPublishes) +
                              "publish('gradient', 0, [1.0 if int(os.environ['WORLD_SIZE']) < 2 else 3.0])\n";
  const test::RunResult run = test::run_of(program, "--layouts 'dp1; tp2 pp2 zero' --shrink");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "\nshrunk     tp2 pp2 zero, in ")) << run.out;
  EXPECT_TRUE(has(run.out, " to pp2 on 2 ranks:\n\npp2: the gradient of weight in step 0 on ranks 0, 1"))
      << run.out;
  const test::RunResult holds = test::run_of(program, "--layouts dp1 --shrink");
  EXPECT_EQ(holds.exit_code, 0) << holds.out << holds.err;
  EXPECT_FALSE(has(holds.out, "shrunk")) << holds.out;
}

}  // namespace
