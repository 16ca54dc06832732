// Proves what campaigns draw: deep layouts, options in all pairs, and settings of its own for each property.

#include "verify/campaign/drawn_settings.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "verify/cases/case_list.h"
#include "verify/cases/data_parallel_plan.h"
#include "verify/cases/gpt_plan.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace {

using namespace verify;

constexpr int kRuns = 100;    // of a campaign whose --runs is not given
constexpr int kMaxWorld = 8;  // and its --max-world

std::vector<CaseSetting> drawn(const Case& the_case, const std::string& property, std::uint64_t seed,
                               int runs = kRuns, int max_world = kMaxWorld) {
  DrawnSettings settings(the_case, property, {sim::DType::field, sim::DType::f32}, seed, max_world);
  std::vector<CaseSetting> all;
  for (int i = 0; i < runs; ++i) all.push_back(settings.next());
  return all;
}

const Case& training() { return *find_case("gpt_training"); }

/// Campaigns of trainings: each property, with several seeds.
std::vector<std::vector<CaseSetting>> training_campaigns() {
  std::vector<std::vector<CaseSetting>> all;
  for (const Property& property : all_properties()) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) all.push_back(drawn(training(), property.name, seed));
  }
  return all;
}

template <typename Is>
std::int64_t count(const std::vector<CaseSetting>& settings, const Is& is) {
  return std::count_if(settings.begin(), settings.end(), is);
}

bool uses_three_axes(const CaseSetting& s) {
  const GptPlan plan{s};
  return plan.tp() > 1 && plan.pp() > 1 && plan.dp() > 1;
}
bool is_interleaved(const CaseSetting& s) { return GptPlan{s}.is_interleaved(); }
bool is_sequence_parallel(const CaseSetting& s) { return GptPlan{s}.sequence_parallel(); }

TEST(DrawnSettings, TrainingsReachDeepLayouts) {
  for (const auto& settings : training_campaigns()) {
    EXPECT_GE(count(settings, uses_three_axes), 10);
    EXPECT_GE(count(settings, is_interleaved), 10);
    EXPECT_GE(count(settings, is_sequence_parallel), 10);
    EXPECT_GE(count(settings, [](const auto& s) { return GptPlan{s}.pp() >= 3; }), 5);
    EXPECT_LE(count(settings, [](const auto& s) { return s.group_size == 1; }), 10);
  }
}

TEST(DrawnSettings, TheRanksAlongAnAxisAreThoseDrawn) {
  for (const CaseSetting& s : drawn(training(), "serial", 7)) {
    EXPECT_EQ(GptPlan{s}.tp(), s["tp"]);
    EXPECT_EQ(GptPlan{s}.pp(), s["pp"]);
  }
}

/// The dimensions whose every value is an option of its own.
std::vector<Dimension> with_few_values(const Case& the_case) {
  std::vector<Dimension> few = the_case.dimensions();
  std::erase_if(few, [](const Dimension& d) { return d.most - d.least >= 4; });
  return few;
}

/// Returns the pairs of values that no setting has, one line for each. Values of two axes that need more
/// ranks than the largest world has are left out.
std::string pairs_missing(const Case& the_case, const std::vector<CaseSetting>& settings) {
  std::string missing;
  const std::vector<Dimension> few = with_few_values(the_case);
  for (std::size_t i = 0; i < few.size(); ++i) {
    for (std::size_t j = i + 1; j < few.size(); ++j) {
      const Dimension &a = few[i], &b = few[j];
      bool seen[4][4] = {};
      for (const CaseSetting& s : settings) seen[s[a.name] - a.least][s[b.name] - b.least] = true;
      for (std::int64_t x = a.least; x <= a.most; ++x) {
        for (std::int64_t y = b.least; y <= b.most; ++y) {
          const bool is_too_large = a.is_an_axis && b.is_an_axis && x * y > kMaxWorld;
          if (!is_too_large && !seen[x - a.least][y - b.least])
            missing += fmt::format("{} {} with {} {}\n", a.name, x, b.name, y);
        }
      }
    }
  }
  return missing;
}

TEST(DrawnSettings, EachPairOfOptionsIsDrawn) {
  for (const auto& one : all_cases()) {
    EXPECT_EQ(pairs_missing(*one, drawn(*one, "calls", 0)), "") << one->name();
  }
  for (const auto& settings : training_campaigns()) {
    EXPECT_EQ(pairs_missing(training(), settings), "");
  }
}

/// A pair with an option that needs several ranks counts only if the option has an effect.
TEST(DrawnSettings, OptionsOfSeveralRanksMeetEachOtherOption) {
  for (const auto& settings : training_campaigns()) {
    for (const Dimension& d : with_few_values(training())) {
      if (d.is_an_axis || d.name == "schedule" || d.name == "sequence_parallel") continue;
      for (std::int64_t value = d.least; value <= d.most; ++value) {
        const auto meets = [&](const auto& is_used) {
          return count(settings, [&](const CaseSetting& s) { return s[d.name] == value && is_used(s); });
        };
        EXPECT_GE(meets(is_interleaved), 1) << d.name << " " << value;
        EXPECT_GE(meets(is_sequence_parallel), 1) << d.name << " " << value;
        EXPECT_GE(meets(uses_three_axes), 1) << d.name << " " << value;
      }
    }
    EXPECT_GE(count(settings, [](const auto& s) { return is_interleaved(s) && is_sequence_parallel(s); }), 1);
  }
}

TEST(DrawnSettings, AFlagIsSetInAboutHalfOfTheRunsFromTheFirstOn) {
  for (const auto& settings : training_campaigns()) {
    const std::vector<CaseSetting> first(settings.begin(), settings.begin() + kRuns / 4);
    for (const Dimension& d : training().dimensions()) {
      if (d.most != 1 || d.least != 0) continue;
      const auto set = count(first, [&](const CaseSetting& s) { return s[d.name] == 1; });
      EXPECT_GE(set, 6) << d.name;
      EXPECT_LE(set, 19) << d.name;
    }
  }
}

/// The corner of a long range is its least number: no bucket, an empty parameter.
TEST(DrawnSettings, TheLeastOfALongRangeIsDrawnAsOftenAsAThirdOfTheRest) {
  for (const auto& one : all_cases()) {
    for (const Dimension& d : one->dimensions()) {
      if (d.most - d.least < 4 || d.is_an_axis) continue;
      const auto settings = drawn(*one, "serial", 1);
      const auto least = count(settings, [&](const CaseSetting& s) { return s[d.name] == d.least; });
      EXPECT_GE(least, 12) << one->name() << " " << d.name;
      EXPECT_LE(least, 40) << one->name() << " " << d.name;
      EXPECT_GE(count(settings, [&](const CaseSetting& s) { return s[d.name] > (d.least + d.most) / 2; }), 20)
          << one->name() << " " << d.name;
    }
  }
}

TEST(DrawnSettings, LieInTheirRangesAndTheLargestWorld) {
  for (const auto& one : all_cases()) {
    for (const int max_world : {1, 2, 5, 8, 64}) {
      int largest = 0;
      for (const CaseSetting& s : drawn(*one, "agree", 3, kRuns, max_world)) {
        largest = std::max(largest, s.group_size * s.replicas);
        EXPECT_EQ(s.ranks, one->ranks());
        EXPECT_LT(s.seed, 1U << 24U);
        EXPECT_EQ(s.dimensions.size(), one->dimensions().size());
        for (const Dimension& d : one->dimensions()) {
          EXPECT_GE(s[d.name], d.least);
          EXPECT_LE(s[d.name], d.most);
        }
      }
      EXPECT_LE(largest, max_world);
      EXPECT_GT(2 * largest, max_world) << one->name();
    }
  }
}

/// A round does not wait for classes that exist, or have an effect, in no world.
TEST(DrawnSettings, AllPairsAreDrawnAgainAndAgain) {
  for (const auto& one : all_cases()) {
    for (const int max_world : {1, 2, 3, 8}) {
      DrawnSettings settings(*one, "serial", {sim::DType::field, sim::DType::f32}, 0, max_world);
      for (int i = 0; i < 3 * kRuns; ++i) settings.next();
      EXPECT_GE(settings.covers(), 2) << one->name() << " in up to " << max_world;
    }
  }
}

TEST(DrawnSettings, EveryWorldAndBothDTypesAreDrawn) {
  const auto settings = drawn(*find_case("mlp"), "serial", 0);
  std::set<std::pair<int, int>> worlds;
  for (const CaseSetting& s : settings) worlds.insert({s.group_size, s.replicas});
  EXPECT_EQ(worlds.size(), 12U);  // 1 to 8 ranks, and 1 to 4 in two replicas
  const auto in_field = count(settings, [](const auto& s) { return s.dtype == sim::DType::field; });
  EXPECT_GE(in_field, 35);
  EXPECT_LE(in_field, 65);
}

TEST(DrawnSettings, TheSameRequestDrawsTheSame) {
  EXPECT_EQ(drawn(training(), "serial", 5), drawn(training(), "serial", 5));
  const auto more = drawn(training(), "serial", 5, 2 * kRuns);
  EXPECT_EQ(std::vector(more.begin(), more.begin() + kRuns), drawn(training(), "serial", 5));
}

TEST(DrawnSettings, EachPropertyAndSeedDrawsItsOwn) {
  std::vector<CaseSetting> all;
  for (const Property& property : all_properties()) {
    for (const std::uint64_t seed : {0U, 1U}) {
      for (CaseSetting& s : drawn(*find_case("transformer_layer"), property.name, seed)) {
        s.seed = 0;
        all.push_back(std::move(s));
      }
    }
  }
  std::set<std::string> different;
  for (const CaseSetting& s : all) different.insert(verify::text_of(s));
  EXPECT_GE(different.size(), all.size() * 9 / 10);  // small settings, such as those of one rank, may repeat
}

/// A case whose axis has no room in a small world, and whose range is long.
class WideCase : public CaseOf<WideCase> {
 public:
  std::string name() const override { return "wide"; }
  std::vector<Dimension> dimensions() const override {
    return {{"tokens", 5, 5000}, {.name = "parts", .least = 2, .most = 1000, .is_an_axis = true}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank&, const CaseSetting&) const override {}
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>&, const CaseSetting&) const {
    return {};
  }
};

TEST(DrawnSettings, AnAxisWithoutRoomIsAtItsLeast) {
  for (const CaseSetting& s : drawn(WideCase(), "serial", 0, kRuns, 1)) {
    EXPECT_EQ(s.group_size, 1);
    EXPECT_EQ(s["parts"], 2);
  }
  std::set<std::int64_t> parts;
  for (const CaseSetting& s : drawn(WideCase(), "serial", 0)) {
    parts.insert(s["parts"]);
    EXPECT_EQ(s.group_size % s["parts"], 0);
  }
  EXPECT_GE(parts.size(), 4U);
  EXPECT_GE(*parts.rbegin(), 6);
}

/// Whether this training ends with another loss scale where the scale may fall below its least, or where it
/// may not fall at all.
bool needs_the_least(const CaseSetting& s, int least_power) {
  const DataParallelPlan plan{s};
  reference::LossScaleSetting setting = plan.loss_scale();
  setting.least_power = least_power < 0 ? setting.initial_power : least_power;
  const auto skips = [&](std::int64_t step) { return plan.skips(step); };
  return plan.is_scaled() && loss_scale_after(s["steps"], setting, skips) != plan.last_loss_scale();
}

TEST(DrawnSettings, LossScalesFallAndReachTheirLeast) {
  const std::vector<sim::DType> all = {sim::DType::field, sim::DType::f64, sim::DType::f32, sim::DType::bf16};
  DrawnSettings drawn(*find_case("distributed_optimizer"), "serial", all, 0, kMaxWorld);
  std::vector<CaseSetting> settings;
  for (int i = 0; i < kRuns; ++i) settings.push_back(drawn.next());
  EXPECT_GE(count(settings, [](const auto& s) { return needs_the_least(s, 0); }), 3);
  EXPECT_GE(count(settings, [](const auto& s) { return needs_the_least(s, -1); }), 3);
}

// A load that did not wait for the gather would write into a buffer that is being gathered.
TEST(DrawnSettings, ACheckpointIsLoadedWhileParametersAreGathered) {
  const Case& the_case = *find_case("distributed_optimizer");
  int loads = 0;
  for (const CaseSetting& s : drawn(the_case, "resumes", 0, 20)) {
    const std::vector<CaseSetting> stretches = the_case.stretches(s);
    Bench bench;
    ASSERT_TRUE(bench.run(the_case, stretches[0])->ok());
    const auto report = bench.run(the_case, stretches[1]);
    std::string first;
    for (const sim::CallRecord& call : report->ranks.front().calls) {
      if (first.empty()) first = call.site.name;
    }
    loads += first == "optimizer.gather_params" ? 1 : 0;
  }
  EXPECT_GE(loads, 3);
}

}  // namespace
