// Proves every property of every case, at drawn settings, in the four arithmetics.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// Prints a case by its name, not by its address, in the names of tests.
void PrintTo(const Case* the_case, std::ostream* out) { *out << the_case->name(); }

}  // namespace verify

namespace {

using namespace verify;

CaseSetting drawn_setting(const Case& the_case, sim::DType dtype) {
  CaseSetting setting{.group_size = *rc::gen::inRange(1, 6),
                      .replicas = *rc::gen::inRange(1, 3),
                      .dtype = dtype,
                      .seed = *rc::gen::arbitrary<std::uint64_t>()};
  setting.ranks = the_case.ranks();
  if (setting.ranks != Ranks::tensor_parallel) setting.replicas = 1;
  for (const Dimension& dimension : the_case.dimensions()) {
    setting.dimensions[dimension.name] = *rc::gen::inRange(dimension.least, dimension.most + 1);
  }
  return setting;
}

class Cases : public testing::TestWithParam<const Case*> {
 protected:
  void check(sim::DType dtype) const {
    const Case& the_case = *GetParam();
    Bench bench;
    const bool holds = rc::check([&] {
      const CaseSetting setting = drawn_setting(the_case, dtype);
      for (const Property& property : all_properties()) {
        if (!property.judges(the_case, dtype)) continue;
        const Judgement judgement = property.judge(bench, the_case, setting);
        if (judgement.has_unbounded)
          RC_FAIL(std::string(property.name) + ": an error bound is infinite (" + text_of(setting) + ")");
        if (!judgement.holds)
          RC_FAIL(std::string(property.name) + ": " + judgement.detail + " (" + text_of(setting) + ")");
      }
    });
    EXPECT_TRUE(holds);
  }
};

TEST_P(Cases, HoldInTheField) { check(sim::DType::field); }
TEST_P(Cases, HoldInDoubles) { check(sim::DType::f64); }
TEST_P(Cases, HoldInFloats) { check(sim::DType::f32); }
TEST_P(Cases, HoldInBfloat16) { check(sim::DType::bf16); }

#ifdef SHARDPROOF_SANITIZED
constexpr std::uint64_t kSeeds = 1;
#else
constexpr std::uint64_t kSeeds = 6;
#endif

/// Trains for ten steps, while drawn trials have at most three.
TEST(Trainings, OfTenStepsHold) {
  const Case& training = *find_case("gpt_training");
  Bench bench;
  for (const sim::DType dtype : {sim::DType::field, sim::DType::f64, sim::DType::f32, sim::DType::bf16}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      CaseSetting setting{.group_size = 8, .ranks = Ranks::world, .dtype = dtype, .seed = seed};
      const sim::KeyedRandom random = sim::KeyedRandom(seed).named("ten steps");
      std::uint64_t drawn = 0;
      for (const Dimension& d : training.dimensions()) {
        const auto choices = static_cast<std::uint32_t>(d.most - d.least + 1);
        setting.dimensions[d.name] = d.least + random.below(drawn++, choices);
      }
      setting.dimensions["steps"] = 10;
      for (const Property& property : all_properties()) {
        if (!property.judges(training, dtype)) continue;
        const Judgement judgement = property.judge(bench, training, setting);
        EXPECT_TRUE(judgement.holds) << property.name << ": " << judgement.detail << " (" << text_of(setting)
                                     << ")";
        EXPECT_FALSE(judgement.has_unbounded) << property.name << " (" << text_of(setting) << ")";
      }
    }
  }
}

/// A ring takes the mean of the gradients of a row's scores from its output, which is rounded to bf16: more
/// than a bound for one that has all keys at once allows. A key's bias has no gradient, so all of it is that.
TEST(Trainings, OfARingHoldWhereTheGradientIsRoundingAlone) {
  const Case& training = *find_case("cp_training");
  CaseSetting setting{
      .group_size = 2, .ranks = Ranks::world, .dtype = sim::DType::bf16, .seed = 10388686476U};
  for (const Dimension& d : training.dimensions()) setting.dimensions[d.name] = d.least;
  for (const char* one : {"bias", "documents", "half_channels", "rms_norm"}) setting.dimensions[one] = 1;
  for (const char* two : {"cp", "steps", "vocabulary"}) setting.dimensions[two] = 2;
  Bench bench;
  const Judgement judgement = property_named("serial").judge(bench, training, setting);
  EXPECT_TRUE(judgement.holds) << judgement.detail << " (" << text_of(setting) << ")";
}

std::vector<const Case*> pointers() {
  std::vector<const Case*> cases;
  for (const auto& one : all_cases()) cases.push_back(one.get());
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Cases, testing::ValuesIn(pointers()),
                         [](const auto& the_case) { return the_case.param->name(); });

}  // namespace
