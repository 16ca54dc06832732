// An exam tells what is caught, what has no effect, and what no property sees.

#include "verify/exam/exam.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/defects/with_program.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/explain/explanation.h"
#include "verify/properties/bench.h"

namespace {

using verify::Exam;
using verify::FaultVerdict;

/// A layer that makes one call too many, whose result nobody uses. It does not say which calls it makes.
class BlindCase : public test::WithProgram {
 public:
  BlindCase()
      : WithProgram("row_parallel_linear",
                    [](const verify::Case& right, sim::Rank& rank, const verify::CaseSetting& setting) {
                      right.run(rank, setting);
                      const sim::Tensor unused = sim::filled(rank.device, setting.dtype, {1}, 1);
                      rank.groups.get("tp").all_reduce(unused, sim::ReduceOp::sum, "blind.call");
                    }) {}
  verify::ExpectedOfRank expected_by_rank(const verify::CaseSetting&) const override {
    return [](int) { return verify::ExpectedRun{.is_known = false}; };
  }
};

Exam examined(const verify::Case& the_case, const std::vector<std::string>& faults, std::size_t threads = 1) {
  std::vector<verify::Bench> benches(threads);
  const verify::ExamRequest request{.cases = {&the_case}, .faults = faults, .max_world = 4};
  return run_exam(request, benches, [](std::size_t, std::size_t, const std::string&) { return true; });
}

const verify::ExamRow& row_of(const Exam& exam, const std::string& fault) {
  return *std::find_if(exam.rows.begin(), exam.rows.end(),
                       [&](const auto& row) { return row.fault.text == fault; });
}

TEST(FaultExam, CatchesWhatIsWrongAndNamesWhatHasNoEffect) {
  const Exam exam = examined(*verify::find_case("row_parallel_linear"), {"own-term", "scale", "stale"});
  EXPECT_EQ(exam.false_alarms, std::vector<std::string>());
  EXPECT_EQ(exam.count(FaultVerdict::missed), 0);
  const verify::ExamRow& caught = row_of(exam, "row_parallel_linear.forward:own-term");
  EXPECT_EQ(caught.verdict, FaultVerdict::caught);
  EXPECT_EQ(caught.by, "serial");
  const verify::ExamRow& scaled = row_of(exam, "row_parallel_linear.forward:scale=tp");
  EXPECT_TRUE(scaled.named.site && scaled.named.rank && scaled.named.kind) << scaled.explanation;
  // The layer runs once, so that there is no call before.
  EXPECT_EQ(row_of(exam, "row_parallel_linear.forward:stale").verdict, FaultVerdict::equivalent);
  EXPECT_EQ(row_of(exam, "row_parallel_linear.forward:stale").runs, 8);
}

/// The rows of which an explanation does not name something, one a line.
struct Shares {
  int explained = 0, sites = 0, ranks = 0, kinds = 0;
  std::string wrong = {};
  void add(const verify::ExamRow& row) {
    if (!row.is_explained) return;
    ++explained;
    sites += row.named.site ? 1 : 0;
    ranks += row.named.rank ? 1 : 0;
    kinds += row.named.kind ? 1 : 0;
    if (!row.named.site || !row.named.kind) wrong += row.fault.text + ": " + row.explanation + "\n";
  }
};

TEST(FaultExam, ExplanationsNameTheSiteTheRanksAndTheKind) {
  Shares shares;
  for (const char* name : {"row_parallel_linear", "vocab_parallel_embedding"}) {
    for (const verify::ExamRow& row : examined(*verify::find_case(name), {}).rows) shares.add(row);
  }
  constexpr int kSites = 95, kRanks = 95, kKinds = 80;  // of a hundred
  ASSERT_GT(shares.explained, 100);
  EXPECT_GE(100 * shares.sites, kSites * shares.explained) << shares.wrong;
  EXPECT_GE(100 * shares.ranks, kRanks * shares.explained) << shares.wrong;
  EXPECT_GE(100 * shares.kinds, kKinds * shares.explained) << shares.wrong;
}

/// The call in which a rank then stands is a later one, and not one too many.
TEST(FaultExam, CallsThatARankLeavesOutAreMissingHoweverManyTheyAre) {
  const verify::Case& training = *verify::find_case("gpt_training");
  verify::CaseSetting setting{.group_size = 2, .ranks = verify::Ranks::world, .dtype = sim::DType::f64};
  for (const verify::Dimension& d : training.dimensions()) setting.dimensions[d.name] = d.least;
  for (const char* two : {"tp", "layers", "vocabulary"}) setting.dimensions[two] = 2;
  for (const char* site : {"vocab_parallel_cross_entropy.*", "row_parallel_linear.forward"}) {
    verify::Bench bench;
    bench.plant({verify::parsed_fault(fmt::format("{}:skip@rank=1", site))});
    const std::string why = explanation(bench, training, verify::property_named("serial"), setting);
    EXPECT_NE(why.find("on rank 1: all_reduce"), std::string::npos) << why;
    EXPECT_NE(why.find("is missing"), std::string::npos) << why;
    EXPECT_EQ(why.find("too many"), std::string::npos) << why;
  }
}

TEST(FaultExam, NamesAChangeThatMakesAllRight) {
  const Exam exam = examined(*verify::find_case("row_parallel_linear"),
                             {"scale", "own-term", "zero", "transpose", "nan", "dtype", "skip"});
  const auto why = [&](const char* fault) { return row_of(exam, fault).explanation; };
  const auto has = [&](const char* fault, const char* part) {
    return why(fault).find(part) != std::string::npos;
  };
  EXPECT_PRED2(has, "row_parallel_linear.forward:scale=1+2^-10",
               "all is right if the result of 'row_parallel_linear.forward' is multiplied by 1024/1025");
  EXPECT_PRED2(has, "row_parallel_linear.forward:own-term",
               "the result of 'row_parallel_linear.forward' is used on no rank");
  EXPECT_PRED2(has, "device.matmul:zero", "every result of 'device.matmul' is zero");
  EXPECT_PRED2(has, "device.matmul:transpose",
               "all is right if the results of 'device.matmul' are transposed");
  EXPECT_PRED2(has, "row_parallel_linear.forward:nan", "no number");
  EXPECT_PRED2(has, "row_parallel_linear.forward:dtype=bf16",
               "What ranks give to 'row_parallel_linear.forward' has the precision of bf16");
  EXPECT_PRED2(has, "row_parallel_linear.backward:skip@place=1", "'row_parallel_linear.backward' of");
}

/// A layer at the least of its dimensions over two ranks, with other values of some of them.
verify::CaseSetting setting_of(const verify::Case& the_case, const verify::Dimensions& dimensions,
                               sim::DType dtype = sim::DType::field) {
  verify::CaseSetting setting{.group_size = 2, .dtype = dtype, .seed = 7};
  for (const verify::Dimension& d : the_case.dimensions()) setting.dimensions[d.name] = d.least;
  for (const auto& [name, value] : dimensions) setting.dimensions[name] = value;
  return setting;
}

std::string why_wrong(const verify::Case& the_case, const std::string& fault,
                      const verify::CaseSetting& setting) {
  verify::Bench bench;
  bench.plant({verify::parsed_fault(fault)});
  return explanation(bench, the_case, verify::property_named("serial"), setting);
}

TEST(FaultExam, ACallThatIsRefusedInAnotherGroupIsNamedAndIsNotMissing) {
  const verify::Case& column = *verify::find_case("column_parallel_linear");
  const std::string why = why_wrong(column, "column_parallel_linear.forward:wrong-group=dp",
                                    setting_of(column, {{"sequence_parallel", 1}, {"hidden", 3}}));
  EXPECT_EQ(why.find("on all ranks: all_gather 'column_parallel_linear.forward' of 3 over tp is all_gather "
                     "'column_parallel_linear.forward' of 3 over dp (at 'column_parallel_linear.forward' ("),
            0U)
      << why;
  EXPECT_EQ(why.find("missing"), std::string::npos) << why;
  // An exam counts a wrong group as named by its explanation alone.
  const verify::Fault fault = verify::parsed_fault("column_parallel_linear.forward:wrong-group=dp");
  const std::string refused = "call_shape: rank 0: dp[0] = {0}, rank 0, all_gather over dp";
  EXPECT_TRUE(verify::named_reasons(fault, refused, why, 2).kind);
  EXPECT_FALSE(verify::named_reasons(fault, refused, "on all ranks: it is missing", 2).kind);
}

TEST(FaultExam, AWrongReductionIsNamedBesideTheRightOne) {
  const verify::Case& row = *verify::find_case("row_parallel_linear");
  const std::string why = why_wrong(row, "row_parallel_linear.forward:op=max", setting_of(row, {}));
  EXPECT_EQ(why.find("on all ranks: all_reduce(sum) 'row_parallel_linear.forward' of 2 is all_reduce(max) '"),
            0U)
      << why;
  EXPECT_TRUE(verify::named_reasons(verify::parsed_fault("a.b:op=max"), "", why, 2).kind);
}

TEST(FaultExam, ACallInAnotherOrderMayBeEarlyOrMadeLater) {
  const verify::Case& attention = *verify::find_case("self_attention");
  const verify::CaseSetting setting = setting_of(attention, {{"ranks_a_group", 2}});
  const std::string early = why_wrong(attention, "self_attention.gather_qkv:early@rank=1", setting);
  EXPECT_NE(early.find("'self_attention.gather_qkv' of"), std::string::npos) << early;
  EXPECT_NE(early.find(" is one too many or comes too early ("), std::string::npos) << early;
  const std::string left_out = why_wrong(attention, "row_parallel_linear.forward:skip@rank=1", setting);
  EXPECT_NE(left_out.find("'row_parallel_linear.forward' of"), std::string::npos) << left_out;
  EXPECT_NE(left_out.find(" is missing or made later ("), std::string::npos) << left_out;
}

/// Its ranks multiply the same sum: what is wrong on one of them can be undone on any.
class SquareCase : public verify::CaseOf<SquareCase> {
 public:
  std::string name() const override { return "square"; }
  std::vector<verify::Dimension> dimensions() const override { return {}; }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting&) const override { return {{"y"}}; }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting&) const override {
    return {{"square.sum", sim::Operation::all_reduce, 1},
            {.site = "square.product",
             .operation = sim::Operation::all_reduce,
             .elements = 1,
             .reduce_op = sim::ReduceOp::product}};
  }
  void run(sim::Rank& rank, const verify::CaseSetting& s) const override {
    const sim::Tensor y = verify::drawn_own_columns(rank, s, "x", 1, s.group_size);
    rank.groups.get("tp").all_reduce(y, sim::ReduceOp::sum, "square.sum");
    rank.groups.get("tp").all_reduce(y, sim::ReduceOp::product, "square.product");
    rank.publish("y", y);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const verify::CaseSetting& s) const {
    const auto x = inputs.matrix("x", 1, s.group_size);
    return {{"y", verify::reference::matrix_of(inputs.number(), 1, 1, [&](Eigen::Index, Eigen::Index) {
               Scalar sum = x(0, 0), product = inputs.number().of(1, 1);
               for (Eigen::Index i = 1; i < x.cols(); ++i) sum = sum + x(0, i);
               for (Eigen::Index i = 0; i < x.cols(); ++i) product = product * sum;
               return product;
             })}};
  }
};

TEST(FaultExam, ARepairThatWouldDoOnAnyRankIsToldOfAll) {
  const SquareCase square;
  const std::string why = why_wrong(square, "square.sum:scale=2@place=1", setting_of(square, {}));
  EXPECT_NE(
      why.find("all is right if the result of 'square.sum' is multiplied by 1/2 on rank 0 or 1 of each"),
      std::string::npos)
      << why;
}

/// The kernel computes what is published and right; only its call of the backward pass reaches other tensors.
TEST(FaultExam, AKernelWhoseResultsAreRightIsNotNamed) {
  const verify::Case& mlp = *verify::find_case("mlp");
  const verify::CaseSetting setting = setting_of(
      mlp,
      {{"activation", 1}, {"ffn", 2}, {"gated", 1}, {"hidden", 5}, {"sequence_parallel", 1}, {"tokens", 2}});
  const std::string why = why_wrong(mlp, "row_parallel_linear.backward:own-term", setting);
  EXPECT_NE(why.find("'row_parallel_linear.backward' is used on no rank"), std::string::npos) << why;
  EXPECT_EQ(why.find("device.activate"), std::string::npos) << why;
}

TEST(FaultExam, ResultsOfZerosAndACastOnOneRankHaveASite) {
  const verify::Case& row = *verify::find_case("row_parallel_linear");
  const std::string site = "row_parallel_linear.forward";
  const verify::Dimensions some = {{"tokens", 2}, {"hidden", 3}, {"features", 3}};
  const std::string zero = why_wrong(row, site + ":scale=0", setting_of(row, some));
  EXPECT_NE(
      zero.find("every result of '" + site + "' is zero on all ranks, and what ranks give to it is not"),
      std::string::npos)
      << zero;
  const std::string of_one = why_wrong(row, site + ":scale=0@rank=1", setting_of(row, some));
  EXPECT_NE(of_one.find("every result of '" + site + "' is zero on rank 1, "), std::string::npos) << of_one;
  const std::string cast =
      why_wrong(row, site + ":dtype=bf16@rank=1", setting_of(row, some, sim::DType::f32));
  EXPECT_NE(cast.find("What rank 1 gives to '" + site +
                      "' has the precision of bf16, and what other ranks give has not"),
            std::string::npos)
      << cast;
}

/// With a seed, no id may lie in the rows of a rank, whose gradient is then not used. With others it is.
TEST(FaultExam, WhatIsNotUsedWithOneSeedAloneIsNotNamed) {
  const verify::Case& tied = *verify::find_case("tied_embedding");
  int named = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    verify::CaseSetting setting = setting_of(tied, {{"tokens", 1}});
    setting.seed = seed;
    const std::string why = why_wrong(tied, "vocab_parallel_cross_entropy.sum:scale=2", setting);
    named += why.find("is not used on rank") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(named, 0);
}

TEST(FaultExam, SaysWhatNoPropertySees) {
  const Exam exam = examined(BlindCase(), {"skip", "own-term"});
  EXPECT_EQ(row_of(exam, "blind.call:skip").verdict, FaultVerdict::missed);
  EXPECT_EQ(row_of(exam, "blind.call:skip@place=1").verdict, FaultVerdict::caught);
  EXPECT_EQ(row_of(exam, "blind.call:skip@place=1").by, "left_early");
  EXPECT_EQ(row_of(exam, "blind.call:own-term").verdict, FaultVerdict::equivalent);
  EXPECT_EQ(row_of(exam, "row_parallel_linear.forward:skip").verdict, FaultVerdict::caught);
}

TEST(FaultExam, IsTheSameOnAnyNumberOfThreads) {
  const verify::Case& the_case = *verify::find_case("column_parallel_linear");
  const Exam one = examined(the_case, {"skip"}), three = examined(the_case, {"skip"}, 3);
  ASSERT_EQ(one.rows.size(), three.rows.size());
  for (std::size_t i = 0; i < one.rows.size(); ++i) {
    EXPECT_EQ(one.rows[i].fault.text, three.rows[i].fault.text);
    EXPECT_EQ(one.rows[i].sentence, three.rows[i].sentence);
    EXPECT_EQ(one.rows[i].explanation, three.rows[i].explanation);
  }
}

}  // namespace
