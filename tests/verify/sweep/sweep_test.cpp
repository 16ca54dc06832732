// Proves that a sweep shows the layouts that are accepted, each with the figures of its own run, in the order
// that is stated, and that it says which rule refused what.

#include "verify/sweep/sweep.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "sim/base/error.h"
#include "tests/support/refusal_code.h"
#include "tests/support/request.h"
#include "verify/full_size/full_size_step.h"
#include "verify/full_size/full_size_training.h"
#include "verify/memory/fitting.h"
#include "verify/memory/scenario_memory.h"

namespace {

using namespace verify;

Scenario scenario_of_options(const NamedValues& options) {
  Scenario scenario{"", "test", "a test", {}, {}};
  for (const auto& [name, value] : options) scenario.settings.append(name, {value});
  return scenario;
}

NamedValues small_job() {
  return {{"world-size", "8"},   {"gpus-per-node", "4"},       {"num-layers", "4"},
          {"hidden-size", "32"}, {"num-attention-heads", "4"}, {"seq-length", "32"},
          {"vocab-size", "200"}, {"global-batch-size", "16"},  {"sequence-parallel", "true"}};
}

SweepReport swept(const NamedValues& options, const std::optional<Machine>& machine = {}) {
  const Scenario scenario = scenario_of_options(options);
  return sweep(scenario, sweep_space(scenario.settings), machine);
}

/// The bytes that a step sends, from the calls of ranks that ran.
struct SentBytes {
  std::int64_t inside = 0, across = 0;
};
SentBytes bytes_of_run(const ScenarioRequest& request) {
  const StepReport step = full_size_step(request, {request.layout.dp});
  EXPECT_TRUE(step.row.holds) << step.row.detail;
  SentBytes sent;
  for (const sim::LedgerRow& row : step.ledger) {
    if (row.site == "tied_embeddings.tie") continue;  // when the model is made, and in no step
    sent.inside += row.bytes_inside;
    sent.across += row.bytes_across;
  }
  return sent;
}

TEST(Sweep, EveryLayoutHasTheFiguresOfItsOwnRun) {
  NamedValues options = small_job();
  options.emplace_back("sweep-values", "cp=1,2,4");
  const Scenario scenario = scenario_of_options(options);
  const SweepReport report = swept(options);
  std::int64_t ran = 0;
  for (const SweptLayout& layout : report.layouts) {
    const ScenarioRequest request = scenario_request(at_point(scenario, layout.point));
    const MemoryReport memory = scenario_memory(request);
    EXPECT_EQ(layout.static_bytes, memory.stages[memory.fullest()].static_bytes());
    EXPECT_EQ(layout.peak_bytes, memory.stages[memory.fullest()].peak_bytes());
    EXPECT_EQ(layout.dp * layout.point.tp * layout.point.pp * layout.point.cp, 8);
    if (!layout.unknown.empty() || !can_run_full_size(request).reason.empty()) continue;
    if (layout.point.micro_batch_size > 1 && layout.point.recompute != 0) continue;  // to be short
    const SentBytes sent = bytes_of_run(request);
    EXPECT_EQ(layout.bytes_inside, sent.inside) << request.arguments;
    EXPECT_EQ(layout.bytes_across, sent.across) << request.arguments;
    ++ran;
  }
  EXPECT_GE(ran, 20);
}

TEST(Sweep, ItShowsExactlyWhatIsAccepted) {
  const Scenario scenario = scenario_of_options(small_job());
  const SweepSpace space = sweep_space(scenario.settings);
  const SweepReport report = sweep(scenario, space, {});
  std::set<SweepPoint> shown;
  for (const SweptLayout& layout : report.layouts) EXPECT_TRUE(shown.insert(layout.point).second);
  std::int64_t tried = 0;
  for (const SweepPoint& point : space.points(8)) {
    ++tried;
    const bool is_accepted =
        test::refusal_code([&] { scenario_request(at_point(scenario, point)); }) == "none";
    EXPECT_EQ(shown.contains(point), is_accepted);
  }
  EXPECT_EQ(report.tried, tried);
  EXPECT_EQ(std::ranges::count_if(report.layouts, &SweptLayout::is_own), 1);
}

TEST(Sweep, LayoutsThatFitAndTakeLessComeFirst) {
  const Machine machine{"m", "", 1e12, 1e9, 1e8, 1.0 / 1'000'000};
  for (const bool has_machine : {false, true}) {
    NamedValues options = small_job();
    std::vector<std::int64_t> peaks;
    for (const SweptLayout& layout : swept(options).layouts) peaks.push_back(*layout.peak_bytes);
    std::ranges::sort(peaks);
    options.emplace_back("gpu-memory", std::to_string(peaks[peaks.size() / 2]));
    const SweepReport report = swept(options, has_machine ? std::optional(machine) : std::nullopt);
    ASSERT_GT(report.fitting(), 0);
    ASSERT_LT(report.fitting(), std::ssize(report.layouts));
    for (std::size_t i = 1; i < report.layouts.size(); ++i) {
      const SweptLayout &a = report.layouts[i - 1], &b = report.layouts[i];
      ASSERT_GE(*a.fits, *b.fits);
      if (*a.fits != *b.fits) continue;
      ASSERT_EQ(a.seconds.has_value(), has_machine);
      if (has_machine) {
        ASSERT_LE(*a.seconds, *b.seconds);
      } else {
        ASSERT_LE(*a.bytes_across, *b.bytes_across);
        const auto order = [](const SweptLayout& one) {
          return std::tuple(*one.bytes_across, one.point.recompute, one.bubble, one.point);
        };
        ASSERT_LT(order(a), order(b));
      }
    }
  }
}

TEST(Sweep, LayoutsThatFitOnlyJustStandBehindThoseThatFit) {
  NamedValues options = small_job();
  std::vector<std::int64_t> peaks;
  for (const SweptLayout& layout : swept(options).layouts) peaks.push_back(*layout.peak_bytes);
  std::ranges::sort(peaks);
  const std::int64_t middle = peaks[peaks.size() / 2];
  options.emplace_back("gpu-memory", std::to_string(middle + kTight));
  std::vector<std::string> words;
  for (const SweptLayout& layout : swept(options).layouts) {
    words.emplace_back(fit_word(layout));
    EXPECT_EQ(words.back(), *layout.peak_bytes <= middle ? "yes" : "just");
  }
  EXPECT_TRUE(std::ranges::is_sorted(words, std::greater()));
  EXPECT_EQ(words.back(), "just");
}

TEST(Sweep, ChunksVaryWhereThereAreSeveralPipelineRanks) {
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;  // pp, chunks
  for (const SweptLayout& layout : swept(small_job()).layouts)
    sizes.emplace(layout.point.pp, layout.point.chunks);
  EXPECT_TRUE(sizes.contains({1, 1}));
  EXPECT_TRUE(sizes.contains({2, 2}));
  EXPECT_FALSE(sizes.contains({1, 2}));
}

/// Short sequences are not cut over cp, unless it is asked for.
TEST(Sweep, ContextRanksAreTriedForLongSequences) {
  NamedValues options = small_job();
  EXPECT_EQ(sweep_space(scenario_of_options(options).settings).cp, std::vector<std::int64_t>{1});
  std::ranges::find(options, "seq-length", &NamedValues::value_type::first)->second = "32768";
  EXPECT_EQ(sweep_space(scenario_of_options(options).settings).cp, (std::vector<std::int64_t>{1, 2, 4}));
}

TEST(Sweep, ItSaysWhichRuleRefusedHowMany) {
  NamedValues options = small_job();
  options.insert(options.end(), {{"sweep-values", "tp=1,8"}});
  const Scenario scenario = scenario_of_options(options);
  const SweepReport report = swept(options);
  const auto heads = std::ranges::find(report.refusals, "attention_heads", &SweepRefusal::code);
  ASSERT_NE(heads, report.refusals.end());
  const auto points = sweep_space(scenario.settings).points(8);
  EXPECT_EQ(heads->layouts, std::ranges::count(points, 8, &SweepPoint::tp));
  EXPECT_NE(heads->example.find('8'), std::string::npos) << heads->example;
}

TEST(Sweep, WithoutAResultItIsRefused) {
  NamedValues options = small_job();
  options.emplace_back("sweep-values", "tp=8");
  EXPECT_EQ(test::refusal_code([&] { swept(options); }), "sweep_without_result");
  options.back().second = "tp=3";
  EXPECT_EQ(test::refusal_code([&] { swept(options); }), "sweep_without_result");
}

TEST(Sweep, ValuesThatAreNoneAreRefused) {
  for (const char* values :
       {"tp", "tp=", "tp=0", "tp=x", "dp=2", "recompute=some", "tp=1,,2", "tp=99999999999"}) {
    NamedValues options = small_job();
    options.emplace_back("sweep-values", values);
    EXPECT_EQ(test::refusal_code([&] { swept(options); }), "sweep_values") << values;
  }
  EXPECT_EQ(test::refusal_code([&] {
              sweep_space(scenario_of_options({{"num-layers", "2"}}).settings);
            }),
            "missing_option");
}

/// A model with experts varies ep, and each layout has the bytes of its own run.
TEST(Sweep, ExpertsVaryEp) {
  NamedValues options = small_job();
  options.insert(options.end(), {{"num-experts", "4"},
                                 {"moe-router-topk", "2"},
                                 {"disable-bias-linear", "true"},
                                 {"moe-token-dispatcher-type", "alltoall"},
                                 {"sweep-values", "cp=1"},
                                 {"sweep-values", "recompute=none"},
                                 {"sweep-values", "micro-batch-size=1"}});
  const Machine machine{"m", "", 1e12, 1e9, 1e8, 1.0 / 1'000'000};
  const Scenario scenario = scenario_of_options(options);
  std::set<std::int64_t> ep;
  for (const SweptLayout& layout : swept(options, machine).layouts) {
    ep.insert(layout.point.ep);
    EXPECT_EQ(layout.unknown, "");
    const SentBytes sent = bytes_of_run(scenario_request(at_point(scenario, layout.point)));
    EXPECT_EQ(layout.bytes_inside, sent.inside);
    EXPECT_EQ(layout.bytes_across, sent.across);
    EXPECT_GT(layout.seconds.value_or(0), 0);
  }
  EXPECT_EQ(ep, (std::set<std::int64_t>{1, 2, 4}));
}

}  // namespace
