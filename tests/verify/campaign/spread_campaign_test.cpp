// Proves that a campaign which is divided over ranks gives the rows that one process gives. The ranks are
// virtual here; tests/verify/program/spread_check_test.cpp has processes.

#include "verify/campaign/spread_campaign.h"

#include <atomic>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <optional>

#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/cases/case_inputs.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;

/// Publishes the drawn input, and twice of it where the setting is wrong.
class DoublingCase : public CaseOf<DoublingCase> {
 public:
  using IsWrong = std::function<bool(const CaseSetting&)>;
  DoublingCase(std::string name, IsWrong is_wrong) : name_(std::move(name)), is_wrong_(std::move(is_wrong)) {}
  std::string name() const override { return name_; }
  std::vector<Dimension> dimensions() const override { return {{"tokens", 1, 9}, {"hidden", 1, 9}}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const sim::Tensor x = drawn(rank, s, "x", {s["tokens"], s["hidden"]});
    rank.publish("y", sim::scale(x, {rank.id == 0 && is_wrong_(s) ? 2 : 1, 1}));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return {{"y", inputs.matrix("x", s["tokens"], s["hidden"])}};
  }

 private:
  std::string name_;
  IsWrong is_wrong_;
};

CampaignRequest request_of(const std::vector<const Case*>& cases) {
  return {.cases = cases,
          .properties = {&property_named("serial"), &property_named("calls")},
          .dtypes = {sim::DType::field, sim::DType::f32},
          .runs = 61,
          .seed = 5,
          .max_world = 4};
}

struct Ended {
  std::vector<CampaignRow> rows;  // of rank 0
  bool is_whole = true;
  std::int64_t done = 0;  // as rank 0 was told at the end
};

Ended in_one_process(const CampaignRequest& request) {
  Ended ended{campaign_rows(request)};
  std::vector<Bench> benches(1);
  run_campaign(request, benches, ended.rows, [](std::int64_t, const CampaignRow&) { return true; });
  return ended;
}

/// Each rank stands for a process that has this many threads.
Ended over_ranks(
    const CampaignRequest& request, int ranks, std::size_t threads,
    const std::function<bool(int)>& goes_on = [](int) { return true; }) {
  Ended ended;
  sim::CpuDevice device;
  const sim::RunReport report = sim::simulate(sim::world_of(ranks), device, [&](sim::Rank& rank) {
    std::vector<CampaignRow> rows = campaign_rows(request);
    std::vector<Bench> benches(threads);
    const bool is_whole =
        run_spread_campaign(rank, request, benches, rows, [&](std::int64_t done, const CampaignRow&) {
          if (rank.id == 0) ended.done = done;
          return goes_on(rank.id);
        });
    const bool is_whole_everywhere = number_of_rank_0(rank, is_whole ? 1 : 0) == 1;
    if (is_whole != is_whole_everywhere)
      rank.publish("disagree", sim::filled(rank.device, sim::DType::f32, {1}, 1));
    if (rank.id != 0) return;
    ended.rows = rows;
    ended.is_whole = is_whole;
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(report.find(rank, "disagree"), nullptr);
  return ended;
}

std::string text_of(const std::vector<CampaignRow>& rows) {
  std::string text;
  for (const CampaignRow& row : rows) {
    text += fmt::format("{} {} {} runs, slack {}, {} unbounded", row.the_case->name(), row.property->name,
                        row.runs, row.slack, row.runs_with_unbounded);
    if (row.failure)
      text += fmt::format(", {}, with {}, why {}", row.failure->detail, verify::text_of(row.failure->setting),
                          row.failure->explanation);
    text += "\n";
  }
  return text;
}

TEST(SpreadCampaign, HasTheRowsOfOneProcessForAnyNumberOfRanksAndThreads) {
  const DoublingCase right("right", [](const CaseSetting&) { return false; });
  const DoublingCase often("often_wrong", [](const CaseSetting& s) { return s["tokens"] >= 3; });
  const DoublingCase seldom("seldom_wrong",
                            [](const CaseSetting& s) { return s["tokens"] == 7 && s["hidden"] > 4; });
  const CampaignRequest request = request_of({&right, &often, &seldom});
  const std::string expected = text_of(in_one_process(request).rows);
  EXPECT_NE(expected.find("often_wrong serial"), std::string::npos);
  EXPECT_NE(expected.find("seldom_wrong serial"), std::string::npos);
  for (const int ranks : {1, 2, 3, 5, 20}) {
    for (const std::size_t threads : {1U, 3U}) {
      const Ended ended = over_ranks(request, ranks, threads);
      EXPECT_EQ(text_of(ended.rows), expected) << ranks << " ranks, " << threads << " threads";
      EXPECT_TRUE(ended.is_whole);
    }
  }
}

TEST(SpreadCampaign, AnInterruptOfAnyRankEndsIt) {
  const DoublingCase right("right", [](const CaseSetting&) { return false; });
  CampaignRequest request = request_of({&right});
  request.runs = 1'000'000;
  const Ended ended = over_ranks(request, 3, 1, [](int rank) { return rank != 1; });
  EXPECT_FALSE(ended.is_whole);
  EXPECT_LT(ended.rows.front().runs, request.runs);
  EXPECT_FALSE(ended.rows.front().failure.has_value());
}

/// A failure that process 0 cannot repeat is still one.
TEST(SpreadCampaign, AFailureThatOnlyAnotherProcessSeesIsTold) {
  std::optional<CaseSetting> of_rank_1;
  std::atomic<int> runs = 0;
  const DoublingCase once("once_wrong", [&](const CaseSetting& s) { return s == of_rank_1 && runs++ == 0; });
  CampaignRequest request = request_of({&once});
  request.properties = {&property_named("serial")};
  DrawnSettings settings(once, "serial", request.dtypes, request.seed, request.max_world);
  for (int run = 0; run <= 5; ++run) of_rank_1 = settings.next();  // the second portion is that of rank 1
  const Ended ended = over_ranks(request, 2, 1);
  ASSERT_TRUE(ended.rows.front().failure.has_value());
  EXPECT_EQ(
      ended.rows.front().failure->detail,
      "run 5 failed on another process and holds on process 0: the case depends on more than its setting");
  EXPECT_EQ(ended.rows.front().runs, 6);
}

}  // namespace
