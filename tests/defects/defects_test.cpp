// Every bug of scenarios/faults is caught as its file says, and every defect that needs code is caught in the
// field by the property that is named for it; which floats catch them, too, is the table of
// tests/defects/README.md, which has to be this one.

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/defects/exam.h"
#include "tests/defects/with_program.h"
#include "tests/defects/wrong_routing.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;
using test::begins_as;
using test::Defect;
using test::failure_of;

bool is_step(const Defect& defect) {
  const std::string the_case = defect.the_case->name();
  return the_case == "gpt_training" || the_case == "moe_training";
}

/// A bug of scenarios/faults.
class Bugs : public testing::TestWithParam<std::size_t> {};

TEST_P(Bugs, AreCaughtAsTheirFileSays) {
  const CatalogueEntry& bug = test::bugs()[GetParam()];
  std::vector<Bench> benches(1);
  const std::vector<CatalogueRow> rows =
      run_catalogue({&bug, 1}, benches, [](std::size_t, std::size_t, const std::string&) { return true; });
  EXPECT_EQ(rows.front().verdict, FaultVerdict::caught) << bug.bug << ": " << rows.front().sentence;
  ASSERT_TRUE(rows.front().failure.has_value());
  const CaseSetting& setting = rows.front().failure->setting;
  EXPECT_LE(setting.group_size, test::defect_named(bug.bug).most_ranks)
      << bug.bug << " did not shrink: " << text_of(setting);
}

/// Whether every rank makes other calls than it should.
bool changes_calls(const Fault& fault) {
  const bool is_everywhere = fault.where.ranks.empty() && !fault.where.place;
  return is_everywhere && (fault.kind == FaultKind::skip || fault.kind == FaultKind::twice ||
                           fault.kind == FaultKind::wrong_group);
}

/// A whole step that calls otherwise is caught by its calls alone.
TEST_P(Bugs, OfAStepsCallsAreCaughtByThem) {
  const CatalogueEntry& bug = test::bugs()[GetParam()];
  const Defect& defect = test::defect_named(bug.bug);
  const Fault& fault = bug.request.faults.front();
  if (!is_step(defect) || !changes_calls(fault)) return;
  const auto failure = failure_of(defect, "calls", sim::DType::f32);
  ASSERT_TRUE(failure.has_value()) << bug.bug << " survives calls";
  EXPECT_NE(failure->explanation.find(fault.site), std::string::npos) << failure->explanation;
}

std::vector<std::size_t> numbers_below(std::size_t count) {
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Bugs, testing::ValuesIn(numbers_below(test::bugs().size())));

TEST(CatalogueOfDefects, HasEachNameOnce) {
  std::set<std::string> names;
  for (const Defect& defect : test::catalogue())
    EXPECT_TRUE(names.insert(defect.name).second) << defect.name << " is there twice";
}

/// A defect that needs code.
class Defects : public testing::TestWithParam<std::size_t> {
 protected:
  static const Defect& defect() { return test::catalogue()[test::bugs().size() + GetParam()]; }
};

TEST_P(Defects, AreCaughtInTheField) {
  const auto failure = failure_of(defect(), defect().property, sim::DType::field);
  ASSERT_TRUE(failure.has_value()) << defect().name << " survives " << defect().property;
  EXPECT_LE(failure->setting.group_size, defect().most_ranks)
      << defect().name << " did not shrink: " << text_of(failure->setting);
  const test::ExamAnswer* answer = test::answer_for(defect().name);
  ASSERT_NE(answer, nullptr) << "no examiner has looked at " << defect().name;
  EXPECT_TRUE(begins_as(test::first_sentence(*failure), answer->says))
      << defect().name << " is explained in other words, which need another verdict: " << failure->detail
      << "\n"
      << failure->explanation;
  std::cout << defect().name << "\n  " << failure->detail << "\n  " << failure->explanation << "\n";
}

/// A whole step that calls otherwise is caught by its calls alone.
TEST_P(Defects, OfAStepsCallsAreCaughtByThem) {
  const std::string accuses = "on all ranks: ";
  const test::ExamAnswer* answer = test::answer_for(defect().name);
  ASSERT_NE(answer, nullptr) << defect().name;
  const std::string& says = answer->says;
  if (!is_step(defect()) || !says.starts_with(accuses)) return;
  const auto failure = failure_of(defect(), "calls", sim::DType::f32);
  ASSERT_TRUE(failure.has_value()) << defect().name << " survives calls";
  const std::string call = says.substr(accuses.size(), says.find(" of ") - accuses.size());
  EXPECT_NE(failure->explanation.find(call), std::string::npos) << defect().name << "\n"
                                                                << failure->explanation;
}

INSTANTIATE_TEST_SUITE_P(All, Defects,
                         testing::ValuesIn(numbers_below(test::catalogue().size() - test::bugs().size())));

/// The field has no gradient that is not finite, so that only floats show what happens to one.
TEST(DefectsOfFloats, AnOverflowThatOneRankSeesIsCaughtByItsValues) {
  const Defect& defect = test::defect_named("step: overflow seen on one rank");
  EXPECT_TRUE(failure_of(defect, "serial", sim::DType::f64).has_value());
}

/// The field has one dtype, so that only floats show in which one a router computes.
TEST(DefectsOfFloats, ARouterInTheDtypeOfTheLayerIsCaughtInBf16) {
  const auto program = [](const Case&, sim::Rank& rank, const CaseSetting& s) {
    test::router_in_the_dtype_of_the_layer(rank, s);
  };
  const Defect defect{.name = "experts: router in the dtype of the layer",
                      .property = "serial",
                      .the_case = std::make_shared<test::WithProgram>("moe_router", program),
                      .device = std::make_shared<sim::CpuDevice>()};
  EXPECT_FALSE(failure_of(defect, "serial", sim::DType::field).has_value());
  const auto failure = failure_of(defect, "serial", sim::DType::bf16);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->setting["router_dtype"], 1) << text_of(failure->setting);
  EXPECT_TRUE(failure->explanation.starts_with("in the field all is equal: the algebra is right"))
      << failure->explanation;
}

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
  int caught = 0;
  int missed = 0;
};
Row table_row(const Defect& defect) {
  Bench bench = defect.bench();
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
          caught, missed[0] + missed[1] + missed[2]};
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
  int never_shown = 0, never_missed = 0;
  for (const Defect* defect : by_case) {
    const Row row = table_row(*defect);
    std::cout << row.text << "\n";
    if (row.missed == 0) {
      ++(row.caught == 0 ? never_shown : never_missed);
      continue;
    }
    EXPECT_NE(readme.find("\n" + row.text + "\n"), std::string::npos) << "the README has no line\n"
                                                                      << row.text;
  }
  const std::string sum = fmt::format(
      "{} defects, of which {} are in `scenarios/faults`; no trial shows {}, and no dtype misses {}. ",
      test::catalogue().size(), test::bugs().size(), never_shown, never_missed);
  EXPECT_NE(readme.find(sum), std::string::npos) << "the README does not say\n" << sum;
}

}  // namespace
