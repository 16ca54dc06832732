// An exam tells what is caught, what has no effect, and what no property sees.

#include "verify/properties/exam.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/defects/with_program.h"
#include "verify/cases/case_list.h"
#include "verify/properties/explanation.h"

namespace {

using verify::Exam;
using verify::ExamVerdict;

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
  EXPECT_EQ(exam.count(ExamVerdict::missed), 0);
  const verify::ExamRow& caught = row_of(exam, "row_parallel_linear.forward:own-term");
  EXPECT_EQ(caught.verdict, ExamVerdict::caught);
  EXPECT_EQ(caught.by, "serial");
  const verify::ExamRow& scaled = row_of(exam, "row_parallel_linear.forward:scale=tp");
  EXPECT_TRUE(scaled.named.site && scaled.named.rank && scaled.named.kind) << scaled.explanation;
  // The layer runs once, so that there is no call before.
  EXPECT_EQ(row_of(exam, "row_parallel_linear.forward:stale").verdict, ExamVerdict::equivalent);
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

TEST(FaultExam, SaysWhatNoPropertySees) {
  const Exam exam = examined(BlindCase(), {"skip", "own-term"});
  EXPECT_EQ(row_of(exam, "blind.call:skip").verdict, ExamVerdict::missed);
  EXPECT_EQ(row_of(exam, "blind.call:skip@place=1").verdict, ExamVerdict::caught);
  EXPECT_EQ(row_of(exam, "blind.call:skip@place=1").by, "left_early");
  EXPECT_EQ(row_of(exam, "blind.call:own-term").verdict, ExamVerdict::equivalent);
  EXPECT_EQ(row_of(exam, "row_parallel_linear.forward:skip").verdict, ExamVerdict::caught);
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
