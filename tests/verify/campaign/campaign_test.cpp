// Proves what check does with a wrong case: it finds the case, shrinks it, says which factor is wrong,
// and writes the line that replays it.

#include "verify/campaign/campaign.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/tensor/ops.h"
#include "tests/support/request.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;

/// Publishes the drawn input. From two ranks and three tokens on, it is wrong in the given way.
class WrongCase : public CaseOf<WrongCase> {
 public:
  enum class Wrong {
    scaled,
    differs_between_ranks,
    differs_between_replicas,
    calls_more,
    wrong_sign_of_last,
    shape_of_a_rank,
    not_published,
    without_reference,
    wider_dtype,
    whole_numbers,
    not_declared,
    published_twice,
    stride_of_three,
    gradient_of_another_shape,
    copy_of_a_rank,
    on_any_number_of_ranks,
    scaled_in_floats,
    halved_precision,
    constant_in_floats,
    waits_forever,
    squared,
  };
  explicit WrongCase(Wrong wrong) : wrong_(wrong) {}

  std::string name() const override { return "wrong"; }
  std::vector<Dimension> dimensions() const override { return {{"tokens", 1, 9}, {"hidden", 1, 9}}; }
  std::vector<CaseOutput> outputs(const CaseSetting& setting) const override {
    if (wrong_ == Wrong::stride_of_three) return {{"y", Placement::rows, 3}};
    if (wrong_ == Wrong::copy_of_a_rank) {
      CaseOutput y{.name = "y", .adds = true};
      for (int rank = 0; rank < setting.group_size * setting.replicas; ++rank) y.part_of.push_back(rank);
      return {y};
    }
    if (wrong_ != Wrong::gradient_of_another_shape) return {{"y"}};
    return {{"output"}, {"grad_output"}, {"input"}, {"grad_input"}};
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    if (wrong_ != Wrong::gradient_of_another_shape) return {};
    return {{{"input", "grad_input"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& setting) const override {
    sim::Tensor y = drawn(rank, setting, "x", {setting["tokens"], setting["hidden"]});
    const bool is_wrong = setting.group_size >= 2 && setting["tokens"] >= 3;
    if (wrong_ == Wrong::on_any_number_of_ranks && setting["tokens"] == 7) y = sim::scale(y, {2, 1});
    if (is_wrong && wrong_ == Wrong::scaled) y = sim::scale(y, {1, setting.group_size});
    if (is_wrong && wrong_ == Wrong::differs_between_ranks && rank.id == 1) y = sim::scale(y, {2, 1});
    if (is_wrong && wrong_ == Wrong::calls_more) rank.groups.get("tp").barrier("one.more");
    if (is_wrong && wrong_ == Wrong::wrong_sign_of_last) {
      sim::Tensor last = y.rows(setting["tokens"] - 1, setting["tokens"]);
      sim::copy(sim::scale(last, {-1, 1}), last);
    }
    if (is_wrong && wrong_ == Wrong::differs_between_replicas && rank.id >= setting.group_size)
      y = sim::scale(y, {2, 1});
    if (is_wrong && wrong_ == Wrong::shape_of_a_rank && rank.id == 1) y = y.rows(1, setting["tokens"]);
    if (is_wrong && wrong_ == Wrong::not_published && rank.id == 1) return;
    if (is_wrong && wrong_ == Wrong::wider_dtype) y = sim::cast(y, sim::DType::f64);
    if (is_wrong && wrong_ == Wrong::whole_numbers) y = tensor_of_ids(rank, {1, 2, 3});
    const bool in_floats = is_wrong && setting.dtype != sim::DType::field;
    if (in_floats && wrong_ == Wrong::scaled_in_floats) y = sim::scale(y, {65536, 1});
    if (in_floats && wrong_ == Wrong::halved_precision)
      y = sim::cast(sim::cast(y, sim::DType::bf16), setting.dtype);
    if (in_floats && wrong_ == Wrong::constant_in_floats)
      y = sim::filled(rank.device, setting.dtype, y.shape(), 3);
    if (is_wrong && wrong_ == Wrong::waits_forever && rank.id == 1)
      rank.groups.get("tp").barrier("one.waits");
    if (wrong_ == Wrong::squared) y = sim::combine(sim::ReduceOp::product, y, y);
    if (is_wrong && wrong_ == Wrong::copy_of_a_rank && rank.id == 1) y = sim::scale(y, {2, 1});
    if (is_wrong && wrong_ == Wrong::not_declared && rank.id == 1) rank.publish("z", y);
    if (is_wrong && wrong_ == Wrong::published_twice) rank.publish("y", y);
    if (wrong_ == Wrong::gradient_of_another_shape) {
      for (const char* name : {"output", "grad_output", "input"}) rank.publish(name, y);
      return rank.publish("grad_input", is_wrong ? y.rows(1, setting["tokens"]) : y);
    }
    rank.publish("y", y);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& setting) const {
    if (wrong_ == Wrong::without_reference) return {};
    Wholes<Scalar> wholes;
    for (const CaseOutput& output : outputs(setting))
      wholes[output.name] = inputs.matrix("x", setting["tokens"], setting["hidden"]);
    return wholes;
  }

 private:
  Wrong wrong_;
};

/// The rows of a campaign of all properties with this number of threads.
std::vector<CampaignRow> rows_of(const CampaignRequest& request, std::size_t threads = 1) {
  std::vector<CampaignRow> rows = campaign_rows(request);
  std::vector<Bench> benches(threads);
  run_campaign(request, benches, rows, [](std::int64_t, const CampaignRow&) { return true; });
  return rows;
}

CampaignRow campaign(const Case& the_case, const std::string& name, sim::DType dtype) {
  return rows_of({.cases = {&the_case},
                  .properties = {&property_named(name)},
                  .dtypes = {dtype},
                  .runs = 200,
                  .seed = 3,
                  .max_world = 8})
      .front();
}

TEST(Campaign, AWrongFactorIsFoundShrunkAndNamed) {
  for (const sim::DType dtype : {sim::DType::field, sim::DType::f64, sim::DType::f32, sim::DType::bf16}) {
    const WrongCase wrong(WrongCase::Wrong::scaled);
    const CampaignRow row = campaign(wrong, "serial", dtype);
    ASSERT_TRUE(row.failure.has_value()) << sim::name_of(dtype);
    EXPECT_EQ(row.failure->setting.group_size, 2);
    EXPECT_EQ(row.failure->setting.dimensions, (Dimensions{{"tokens", 3}, {"hidden", 1}}));
    EXPECT_EQ(row.failure->explanation, "y: every element is the serial one divided by tp (2).");
  }
}

TEST(Campaign, OneWrongElementIsNamed) {
  const WrongCase wrong(WrongCase::Wrong::wrong_sign_of_last);
  const CampaignRow row = campaign(wrong, "serial", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail.find("y(2, 0) is "), 0U) << row.failure->detail;
  EXPECT_EQ(row.failure->explanation,
            "y: row 2 of x, rank 2's part, counted with the other sign (at tp 3, hidden 3).");
}

TEST(Campaign, RanksThatDifferAreFound) {
  const WrongCase wrong(WrongCase::Wrong::differs_between_ranks);
  // This property compares the tensors of the first rank only.
  EXPECT_FALSE(campaign(wrong, "serial", sim::DType::field).failure.has_value());
  const CampaignRow row = campaign(wrong, "agree", sim::DType::f32);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail, "y differs between ranks 0 and 1");
  EXPECT_EQ(row.failure->explanation, "y, on rank 1 only: every element is 2 times the serial one.");
}

TEST(Campaign, ACallTooManyIsFound) {
  const WrongCase wrong(WrongCase::Wrong::calls_more);
  const CampaignRow row = campaign(wrong, "calls", sim::DType::f32);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail,
            "rank 0, call 0: barrier 'one.more' of 0, where the closed form has no call");
  EXPECT_EQ(row.failure->explanation.find(
                "on all ranks: barrier 'one.more' of 0 is one too many (at 'one.more' (tests/"),
            0U)
      << row.failure->explanation;
}

TEST(Campaign, ReplicasThatDifferAreFound) {
  const WrongCase wrong(WrongCase::Wrong::differs_between_replicas);
  const CampaignRow row = campaign(wrong, "agree", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail, "y differs between ranks 0 and 2");
  EXPECT_EQ(row.failure->explanation,
            "y: rank 2 of another replica differs from rank 0, which was given the same.");
}

TEST(Campaign, WhatCannotBeMadeWholeIsFound) {
  for (const char* name : {"serial", "agree"}) {
    const WrongCase shape(WrongCase::Wrong::shape_of_a_rank), missing(WrongCase::Wrong::not_published);
    const CampaignRow of_shape = campaign(shape, name, sim::DType::f32);
    ASSERT_TRUE(of_shape.failure.has_value());
    EXPECT_EQ(of_shape.failure->detail, "y is f32 [2, 1] on rank 1, but f32 [3, 1] on rank 0");
    EXPECT_EQ(of_shape.failure->explanation, "");
    const CampaignRow of_missing = campaign(missing, name, sim::DType::f32);
    ASSERT_TRUE(of_missing.failure.has_value());
    EXPECT_EQ(of_missing.failure->detail, "rank 1 did not publish y");
    EXPECT_EQ(of_missing.failure->explanation, "");
  }
}

/// Every property looks at what was published before it judges it.
void expect_unfit(WrongCase::Wrong wrong, const std::string& detail) {
  const WrongCase the_case(wrong);
  for (const char* name : {"serial", "agree", "calls", "special", "schedules"}) {
    const CampaignRow row = campaign(the_case, name, sim::DType::f32);
    ASSERT_TRUE(row.failure.has_value()) << name;
    EXPECT_EQ(row.failure->detail, detail) << name;
    EXPECT_FALSE(row.failure->threw);
  }
}

TEST(Campaign, WhatIsPublishedOtherwiseThanDeclaredIsFound) {
  using Wrong = WrongCase::Wrong;
  expect_unfit(Wrong::wider_dtype, "y is f64 [3, 1] on rank 0, but a case in f32 publishes f32");
  expect_unfit(Wrong::whole_numbers, "y is i32 [3] on rank 0, but a case in f32 publishes f32");
  expect_unfit(Wrong::not_declared,
               "rank 1 published z, which outputs() does not list, so it would not be judged");
  expect_unfit(Wrong::published_twice, "rank 0 published y twice, so the second would not be judged");
  expect_unfit(Wrong::stride_of_three,
               "y is f32 [1, 1] on rank 0, but its stride of 3 does not divide 1 rows");
  const WrongCase numbers(Wrong::whole_numbers);
  const CampaignRow in_bf16 = campaign(numbers, "serial", sim::DType::bf16);
  ASSERT_TRUE(in_bf16.failure.has_value());
  EXPECT_EQ(in_bf16.failure->detail,
            "y is i32 [3] on rank 0, but a case in bf16 publishes bf16, or f32 for sums");
  EXPECT_TRUE(campaign(numbers, "serial", sim::DType::field).failure.has_value());
}

/// Each rank has a copy that is a sum of its own, which no other property compares.
TEST(Campaign, CopiesOfASumThatDifferAreFound) {
  const WrongCase wrong(WrongCase::Wrong::copy_of_a_rank);
  for (const sim::DType dtype : {sim::DType::field, sim::DType::bf16}) {
    EXPECT_FALSE(campaign(wrong, "serial", dtype).failure.has_value());
    const CampaignRow row = campaign(wrong, "agree", dtype);
    ASSERT_TRUE(row.failure.has_value());
    EXPECT_EQ(row.failure->detail, "y differs between its copies 0 and 1");
  }
}

TEST(Campaign, AGradientOfAnotherShapeIsFound) {
  const WrongCase wrong(WrongCase::Wrong::gradient_of_another_shape);
  const CampaignRow row = campaign(wrong, "adjoint", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail, "grad_input is [2, 1], but input, whose gradient it is, is [3, 1]");
}

/// An error is explained as rounding only if it has that size: here that of rounding f32 results to bf16, not
/// a factor.
TEST(Campaign, AnErrorThatTheFieldHasNotIsMeasured) {
  const auto explained = [](WrongCase::Wrong wrong) {
    const WrongCase the_case(wrong);
    const CampaignRow row = campaign(the_case, "serial", sim::DType::f32);
    return row.failure ? row.failure->explanation : "";
  };
  EXPECT_EQ(explained(WrongCase::Wrong::scaled_in_floats),
            "in the field all is equal, and in f32 y is not: every element is 65536 times the serial one.");
  EXPECT_EQ(
      explained(WrongCase::Wrong::constant_in_floats),
      "in the field all is equal, and in f32 y is not: it is off by more than rounding every operation to "
      "bf16 would explain: a branch that the field does not take, or takes by chance, such as a choice or a "
      "shift. All is right with tokens 1.");
  EXPECT_EQ(explained(WrongCase::Wrong::halved_precision),
            "in the field all is equal: the algebra is right, and the rounding, precision or order is not.");
}

/// A mistake that shrinks to one element is explained on a larger tensor.
TEST(Campaign, OneElementIsToldOfALargerTensor) {
  const WrongCase wrong(WrongCase::Wrong::squared);
  const CampaignRow row = campaign(wrong, "serial", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->setting.dimensions, (Dimensions{{"tokens", 1}, {"hidden", 1}}));
  EXPECT_EQ(row.failure->explanation,
            "y: it differs in 4 of 4 elements: rows 0 to 1, columns 0 to 1 (at hidden 2, tokens 2).");
}

TEST(Campaign, ABrokenContractKeepsItsFinding) {
  const WrongCase wrong(WrongCase::Wrong::waits_forever);
  for (const char* name : {"serial", "calls", "schedules"}) {
    const CampaignRow row = campaign(wrong, name, sim::DType::f32);
    ASSERT_TRUE(row.failure.has_value());
    ASSERT_TRUE(row.failure->finding.has_value());
    EXPECT_EQ(row.failure->detail, row.failure->finding->sentence);
    EXPECT_EQ(row.failure->finding->calls.back().site, "one.waits");
    EXPECT_EQ(row.failure->explanation.find("on rank 1: barrier 'one.waits' of 0 is one too many (at "), 0U)
        << row.failure->explanation;
    EXPECT_FALSE(row.failure->finding->hint.empty());
  }
}

TEST(Campaign, ACaseThatThrowsDoesNotHold) {
  const WrongCase wrong(WrongCase::Wrong::without_reference);
  const CampaignRow row = campaign(wrong, "serial", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->detail.find("the case threw: "), 0U) << row.failure->detail;
}

TEST(Campaign, AFailureOfOneRankEndsAtOneRank) {
  const WrongCase wrong(WrongCase::Wrong::on_any_number_of_ranks);
  const CampaignRow row = campaign(wrong, "serial", sim::DType::field);
  ASSERT_TRUE(row.failure.has_value());
  EXPECT_EQ(row.failure->setting.group_size, 1);
  EXPECT_EQ(row.failure->setting.replicas, 1);
  EXPECT_EQ(row.failure->setting.dimensions, (Dimensions{{"tokens", 7}, {"hidden", 1}}));
}

/// Returns everything that a campaign says about its rows.
std::string text_of(const std::vector<CampaignRow>& rows) {
  std::string text;
  for (const CampaignRow& row : rows) {
    text += fmt::format("{} {} {} {} {}\n", row.the_case->name(), row.property->name, row.runs, row.slack,
                        row.runs_with_unbounded);
    if (row.failure)
      text += fmt::format("{}\n{}\n{}\n", text_of(row.failure->setting), row.failure->detail,
                          row.failure->explanation);
  }
  return text;
}

TEST(Campaign, RowsAreTheSameWithAnyNumberOfThreads) {
  using Wrong = WrongCase::Wrong;
  const WrongCase scaled(Wrong::scaled), more(Wrong::calls_more), missing(Wrong::not_published);
  CampaignRequest request{.cases = {&scaled, find_case("mlp"), &more, find_case("parallel_norm"), &missing},
                          .properties = {},
                          .dtypes = {sim::DType::field, sim::DType::bf16},
                          .runs = 30,
                          .seed = 4,
                          .max_world = 4};
  for (const Property& property : all_properties()) request.properties.push_back(&property);
  const std::string alone = text_of(rows_of(request));
  EXPECT_NE(alone.find("divided by tp (2)"), std::string::npos) << alone;
  for (const std::size_t threads : {2U, 3U, 8U})
    EXPECT_EQ(alone, text_of(rows_of(request, threads))) << threads;
}

TEST(Campaign, OneThatIsStoppedKeepsWhatItHasProven) {
  const WrongCase wrong(WrongCase::Wrong::scaled);
  const CampaignRequest request{.cases = {&wrong, find_case("mlp"), find_case("parallel_norm")},
                                .properties = {&property_named("agree")},
                                .dtypes = {sim::DType::field},
                                .runs = 50,
                                .max_world = 4};
  for (const std::size_t threads : {1U, 3U}) {
    std::vector<CampaignRow> rows = campaign_rows(request);
    std::vector<Bench> benches(threads);
    int calls = 0;
    std::int64_t most_done = 0;
    run_campaign(request, benches, rows, [&](std::int64_t done, const CampaignRow&) {
      most_done = std::max(most_done, done);
      return ++calls <= 70;
    });
    EXPECT_EQ(rows[0].runs + rows[1].runs + rows[2].runs, 70);
    EXPECT_LE(most_done, 70);
    if (threads > 1) continue;
    EXPECT_EQ(rows[0].runs, 50);
    EXPECT_EQ(rows[1].runs, 20);
    EXPECT_EQ(rows[2].runs, 0);
  }
}

TEST(Campaign, AStopEndsShrinking) {
  const WrongCase wrong(WrongCase::Wrong::scaled);
  const CampaignRequest request{.cases = {&wrong},
                                .properties = {&property_named("serial")},
                                .dtypes = {sim::DType::field},
                                .runs = 50,
                                .max_world = 8};
  std::vector<CampaignRow> rows = campaign_rows(request);
  Bench bench;
  std::int64_t runs_at_failure = 0, calls = 0;
  run_campaign(request, {&bench, 1}, rows, [&](std::int64_t, const CampaignRow& row) {
    ++calls;
    if (row.failure && runs_at_failure == 0) runs_at_failure = row.runs;
    return !row.failure.has_value();
  });
  ASSERT_TRUE(rows.front().failure.has_value());
  EXPECT_GT(runs_at_failure, 0);
  EXPECT_EQ(rows.front().runs, runs_at_failure);
  EXPECT_EQ(rows.front().failure->explanation.find("y: every element is the serial one divided by tp ("), 0U);
}

TEST(Campaign, DoneRunsAreCountedToTheEnd) {
  const WrongCase wrong(WrongCase::Wrong::scaled);
  const CampaignRequest request{.cases = {&wrong, find_case("mlp")},
                                .properties = {&property_named("serial")},
                                .dtypes = {sim::DType::field},
                                .runs = 20,
                                .max_world = 8};
  std::vector<CampaignRow> rows = campaign_rows(request);
  Bench bench;
  std::int64_t before = 0;
  run_campaign(request, {&bench, 1}, rows, [&](std::int64_t done, const CampaignRow& row) {
    EXPECT_GE(done, before);
    before = done;
    EXPECT_GE(done, row.the_case == &wrong ? 0 : 20);  // what a failure left out is over, too
    return true;
  });
  EXPECT_GE(before, 36);
  EXPECT_LT(before, 40);
}

RC_GTEST_PROP(Campaign, ASettingIsReadAsItWasWritten, (std::uint32_t seed)) {
  const auto& cases = all_cases();
  const Case& the_case = *cases[static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(0, cases.size()))];
  CaseSetting setting{
      .group_size = *rc::gen::inRange(1, 9), .dtype = sim::DType::bf16, .seed = seed % (1U << 24)};
  setting.ranks = the_case.ranks();
  for (const Dimension& d : the_case.dimensions()) {
    setting.dimensions[d.name] = *rc::gen::inRange(d.least, d.most + 1);
  }
  const OneCase read =
      requested_case(test::case_options(options_of(the_case, property_named("calls"), setting)), cases);
  RC_ASSERT(read.the_case == &the_case);
  RC_ASSERT(read.property->name == std::string("calls"));
  RC_ASSERT(text_of(read.setting) == text_of(setting));
}

/// The scenario of a failure shows the layout in which the case ran, and is read as the same setting.
RC_GTEST_PROP(Campaign, AScenarioShowsTheLayoutOfItsCase, (std::uint32_t seed)) {
  const auto& cases = all_cases();
  const Case& the_case = *cases[static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(0, cases.size()))];
  CaseSetting setting{.group_size = *rc::gen::inRange(1, 17), .seed = seed % (1U << 24)};
  setting.ranks = the_case.ranks();
  for (const Dimension& d : the_case.dimensions())
    setting.dimensions[d.name] = *rc::gen::inRange(d.least, d.most + 1);
  const NamedValues options = scenario_options(the_case, property_named("calls"), setting);
  const ScenarioRequest request = test::scenario_request(options);
  const sim::Layout expected = sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron);
  RC_ASSERT(request.layout.tp == expected.tp);
  RC_ASSERT(request.layout.pp == expected.pp);
  RC_ASSERT(request.layout.ep == expected.ep);
  RC_ASSERT(request.layout.dp == expected.dp);
  RC_ASSERT(request.layout.instances == expected.instances);
  RC_ASSERT(request.layout.order == expected.order);
  RC_ASSERT(text_of(requested_case(test::case_options(options), cases).setting) == text_of(setting));
}

}  // namespace
