// Every planted defect is caught in the field by the property that is named for it; which floats catch it,
// too, is the table of tests/defects/README.md, which has to be this one.

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/defects/exam.h"

namespace {

using namespace verify;
using test::begins_as;
using test::Defect;
using test::failure_of;

class Defects : public testing::TestWithParam<std::size_t> {};

TEST_P(Defects, AreCaughtInTheField) {
  const Defect& defect = test::catalogue()[GetParam()];
  const auto failure = failure_of(defect, defect.property, sim::DType::field);
  ASSERT_TRUE(failure.has_value()) << defect.name << " survives " << defect.property;
  EXPECT_LE(failure->setting.group_size, defect.most_ranks)
      << defect.name << " did not shrink: " << text_of(failure->setting);
  const test::ExamAnswer* answer = test::answer_for(defect.name);
  ASSERT_NE(answer, nullptr) << "no examiner has looked at " << defect.name;
  EXPECT_TRUE(begins_as(test::first_sentence(*failure), answer->says))
      << defect.name << " is explained in other words, which need another verdict: " << failure->detail
      << "\n"
      << failure->explanation;
  std::cout << defect.name << "\n  " << failure->detail << "\n  " << failure->explanation << "\n";
}

/// A whole step that calls otherwise is caught by its calls alone.
TEST_P(Defects, OfAStepsCallsAreCaughtByThem) {
  const Defect& defect = test::catalogue()[GetParam()];
  const std::string accuses = "on all ranks: ";
  const test::ExamAnswer* answer = test::answer_for(defect.name);
  ASSERT_NE(answer, nullptr) << defect.name;
  const std::string& says = answer->says;
  const std::string the_case = defect.the_case->name();
  const bool is_step = the_case == "gpt_training" || the_case == "moe_training";
  if (!is_step || !says.starts_with(accuses)) return;
  const auto failure = failure_of(defect, "calls", sim::DType::f32);
  ASSERT_TRUE(failure.has_value()) << defect.name << " survives calls";
  const std::string call = says.substr(accuses.size(), says.find(" of ") - accuses.size());
  EXPECT_NE(failure->explanation.find(call), std::string::npos) << defect.name << "\n"
                                                                << failure->explanation;
}

/// The field has no gradient that is not finite, so that only floats show what happens to one.
TEST(DefectsOfFloats, AnOverflowThatOneRankSeesIsCaughtByItsValues) {
  const auto& all = test::catalogue();
  const auto defect = std::find_if(
      all.begin(), all.end(), [](const Defect& d) { return d.name == "step: overflow seen on one rank"; });
  ASSERT_NE(defect, all.end());
  EXPECT_TRUE(failure_of(*defect, "serial", sim::DType::f64).has_value());
}

std::vector<std::size_t> numbers() {
  std::vector<std::size_t> all(test::catalogue().size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Defects, testing::ValuesIn(numbers()));

// ---- the table of the manual ------------------------------------------------------------------------------

constexpr int kTrials = 50;

/// Trial i of every dtype has the same ranks, shape and seed.
CaseSetting trial(const Case& the_case, std::uint64_t i) {
  const sim::KeyedRandom random = sim::KeyedRandom(i).named(the_case.name());
  CaseSetting setting{
      .group_size = 2 + static_cast<int>(random.below(0, 3)), .ranks = the_case.ranks(), .seed = i};
  std::uint64_t drawn = 1;
  for (const Dimension& d : the_case.dimensions()) {
    const auto choices = static_cast<std::uint32_t>(d.most - d.least + 1);
    setting.dimensions[d.name] = d.least + random.below(drawn++, choices);
  }
  return setting;
}

/// Whether the values of a trial show it: against the reference, between ranks, or after a checkpoint.
bool is_caught(const Defect& defect, Bench& bench, CaseSetting setting, sim::DType dtype) {
  setting.dtype = dtype;
  const auto holds = [&](const char* name) {
    return property_named(name).judge(bench, *defect.the_case, setting).holds;
  };
  return defect.property == "resumes" ? !holds("resumes") : !holds("serial") || !holds("agree");
}

/// "| row: forward sum left out | TrainVerify | 212 | 0 | 1 | 30 |": trials caught in the field, and of these
/// missed in f64, f32, bf16.
struct Row {
  std::string text;
  int missed = 0;
};
Row table_row(const Defect& defect) {
  Bench bench(defect.device);
  constexpr sim::DType kFloats[] = {sim::DType::f64, sim::DType::f32, sim::DType::bf16};
  int caught = 0;
  int missed[] = {0, 0, 0};
  for (std::uint64_t i = 0; i < kTrials; ++i) {
    const CaseSetting setting = trial(*defect.the_case, i);
    if (!is_caught(defect, bench, setting, sim::DType::field)) continue;
    ++caught;
    for (std::size_t k = 0; k < 3; ++k) missed[k] += is_caught(defect, bench, setting, kFloats[k]) ? 0 : 1;
  }
  return {fmt::format("| {} | {} | {} | {} | {} | {} |", defect.name, defect.source, caught, missed[0],
                      missed[1], missed[2]),
          missed[0] + missed[1] + missed[2]};
}

TEST(DefectsTable, IsTheReadmes) {
#ifdef SHARDPROOF_SANITIZED
  GTEST_SKIP() << "the table is the same under every sanitizer, which take minutes for it";
#endif
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/tests/defects/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // Those of a case follow each other, because they share what its reference returns.
  std::vector<const Defect*> by_case;
  for (const Defect& defect : test::catalogue()) by_case.push_back(&defect);
  std::stable_sort(by_case.begin(), by_case.end(), [](const Defect* a, const Defect* b) {
    return a->the_case->name() < b->the_case->name();
  });
  int never_missed = 0;
  for (const Defect* defect : by_case) {
    const Row row = table_row(*defect);
    std::cout << row.text << "\n";
    if (row.missed == 0) {
      ++never_missed;
      continue;
    }
    EXPECT_NE(readme.find("\n" + row.text + "\n"), std::string::npos) << "the README has no line\n"
                                                                      << row.text;
  }
  const std::string sum =
      fmt::format("{} defects; no dtype misses {} of them", test::catalogue().size(), never_missed);
  EXPECT_NE(readme.find(sum), std::string::npos) << "the README does not say\n" << sum;
}

}  // namespace
