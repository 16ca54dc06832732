// Proves laws of the estimated time of a step on drawn worlds and models: the closed form is a bound from
// below and is met where stages are alike, parts add up, and faster machines are faster by as much.

#include "verify/sweep/step_time.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/support/full_size_options.h"
#include "tests/support/refusal_code.h"
#include "tests/support/request.h"
#include "verify/requests/requests.h"
#include "verify/sweep/estimated_step.h"

namespace {

using namespace verify;

constexpr std::uint64_t kSteps = 40;
constexpr double kNanosecond = 1.0 / 1'000'000'000;

/// What is lost where each step and message of the critical path is a whole number of nanoseconds.
double rounding(const EstimatedStep& step) {
  return kNanosecond * static_cast<double>(step.timeline.critical.size());
}

constexpr Machine kSlow{.name = "slow",
                        .source = "",
                        .multiply_adds_per_second = 1e9,
                        .bytes_per_second_inside_node = 4e6,
                        .bytes_per_second_across_nodes = 1e6,
                        .latency_seconds = 1.0 / 1000};

double least_of(const ScenarioRequest& request, const Machine& machine) {
  KindTraffic traffic(request.layout, request.nodes);
  return least_step_seconds(step_seconds(request, step_work(request), traffic, machine));
}

TEST(StepTime, TheClosedFormIsABoundFromBelow) {
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const NamedValues options = test::full_size_options(seed, seed % 2 == 1);
    const ScenarioRequest request = test::scenario_request(options);
    const double least = least_of(request, kSlow);
    const EstimatedStep step = estimated_step(request, kSlow);
    EXPECT_LE(least, step.seconds + rounding(step)) << test::text_of(options);
    EXPECT_GT(least, step.seconds / 2) << test::text_of(options);
  }
}

/// Without an embedding, a last layer and messages, stages are alike: here those take no time, because a
/// machine computes nothing but the layers.
TEST(StepTime, TheClosedFormIsMetWhereStagesAreAlike) {
  for (const char* chunks : {"1", "2", "3"}) {
    StepSeconds step{.microbatches = 8, .is_interleaved = std::string(chunks) != "1"};
    const int pp = 4, v = std::stoi(chunks);
    for (int rank = 0; rank < pp; ++rank) {
      RankSeconds own;
      for (int chunk = 0; chunk < v; ++chunk) own.chunks.push_back({{.compute = 2}, {.compute = 3}});
      own.of_step.compute = 7;
      step.ranks.push_back(own);
      step.to_next.push_back(0);
    }
    EXPECT_EQ(least_step_seconds(step), 8 * v * 5 + (pp - 1) * 5 + 7);
    const sim::PipelineShape shape{
        .pipeline_model_parallel_size = pp,
        .num_microbatches = 8,
        .virtual_pipeline_model_parallel_size = v == 1 ? std::optional<std::int64_t>() : v};
    const auto schedule = make_schedule(v == 1 ? sim::one_forward_one_backward : sim::interleaved, shape);
    const sim::Timeline line = sim::timeline(
        schedule,
        {.step = [](int,
                    const sim::Step& pass) { return std::int64_t{pass.pass == sim::Pass::forward ? 2 : 3}; },
         .message = [](int, int) { return std::int64_t{0}; },
         .end = [](int) { return std::int64_t{7}; }});
    EXPECT_EQ(static_cast<double>(line.length), least_step_seconds(step));
  }
}

TEST(StepTime, PartsOfTheCriticalPathAddUp) {
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const NamedValues options = test::full_size_options(seed, seed % 2 == 1);
    const EstimatedStep step = estimated_step(test::scenario_request(options), kSlow);
    EXPECT_LE(std::abs(step.critical.all() - step.seconds), rounding(step)) << test::text_of(options);
    EXPECT_GE(step.bubble_seconds, 0);
    std::int64_t now = 0;
    for (const sim::CriticalStep& one : step.timeline.critical) {
      EXPECT_EQ(one.begin, now + one.messages);
      now = one.end;
    }
    EXPECT_EQ(now, step.timeline.length);
  }
}

TEST(StepTime, AMachineThatIsTwiceAsFastTakesHalfTheTime) {
  Machine fast = kSlow;
  for (double* rate : {&fast.multiply_adds_per_second, &fast.bytes_per_second_inside_node,
                       &fast.bytes_per_second_across_nodes})
    *rate *= 2;
  fast.latency_seconds /= 2;
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const ScenarioRequest request = test::scenario_request(test::full_size_options(seed, seed % 2 == 1));
    EXPECT_EQ(2 * least_of(request, fast), least_of(request, kSlow));
    const EstimatedStep slow_step = estimated_step(request, kSlow), fast_step = estimated_step(request, fast);
    EXPECT_LE(std::abs(2 * fast_step.seconds - slow_step.seconds),
              2 * rounding(fast_step) + rounding(slow_step));
  }
}

NamedValues job_of(const char* tp, const char* dp, const char* gpus) {
  return {{"world-size", fmt::format("{}", std::stoi(tp) * std::stoi(dp))},
          {"tensor-model-parallel-size", tp},
          {"gpus-per-node", gpus},
          {"num-layers", "2"},
          {"hidden-size", "16"},
          {"num-attention-heads", "4"},
          {"seq-length", "8"},
          {"vocab-size", "128"},
          {"global-batch-size", "8"}};
}

/// One rank alone computes and makes no call.
TEST(StepTime, OneRankTakesItsMultiplyAdds) {
  const ScenarioRequest request = test::scenario_request(job_of("1", "1", "8"));
  const std::int64_t tokens = 8 * 8, h = 16, s = 8, layers = 2, vocabulary = 128;
  const std::int64_t products = 3 * tokens * (layers * (12 * h * h + 2 * s * h) + h * vocabulary);
  const EstimatedStep step = estimated_step(request, kSlow);
  EXPECT_LE(std::abs(step.seconds - static_cast<double>(products) / 1e9), rounding(step));
}

/// What norms, residual sums, attention, the MLP and the loss move takes the time of the memory's rate, once
/// forward and twice backward.
TEST(StepTime, KernelsTakeTheTimeOfWhatTheyMove) {
  const ScenarioRequest request = test::scenario_request(job_of("1", "1", "8"));
  Machine machine = kSlow;
  machine.bytes_per_second_of_memory = 1e9;
  const std::int64_t tokens = 8 * 8, e = 2, h = 16, ffn = 4 * h, layers = 2, vocabulary = 128;
  const std::int64_t bytes = layers * e * (10 * h + 4 * 2 * h + 2 * ffn) + 20 * vocabulary;
  const EstimatedStep plain = estimated_step(request, kSlow), moving = estimated_step(request, machine);
  EXPECT_LE(std::abs(moving.seconds - plain.seconds - static_cast<double>(3 * tokens * bytes) / 1e9),
            rounding(plain) + rounding(moving));
}

/// All gradients of f32 go around a ring of 4 nodes: 3/4 to be summed, and 3/4 of parameters of bf16 back.
TEST(StepTime, AcrossNodesTheLinksOfTheRanksOfANodeCount) {
  const auto exposed = [](const char* gpus) {
    const EstimatedStep step = estimated_step(test::scenario_request(job_of("1", "4", gpus)), kSlow);
    return step.critical.calls[traffic_of_kind("dp-cp")];
  };
  const double latency =
      4 * 2 * kSlow.latency_seconds;        // of four collectives, the norm and the loss among them
  const double scalars = 2 * 2 * 0.75 * 4;  // bytes of these two
  const double bytes = (exposed("1") - latency) * 1e6;
  EXPECT_LE(std::abs(bytes - std::round(bytes)), 1e6 * kNanosecond);
  EXPECT_GT(bytes, scalars);
  EXPECT_LE(std::abs(exposed("2") - (latency + bytes / 2e6)), kNanosecond);
  EXPECT_LE(std::abs(exposed("4") - (latency + bytes / 4e6)), kNanosecond);
  EXPECT_LT(exposed("4"), exposed("2"));
  EXPECT_LT(exposed("2"), exposed("1"));
}

/// Ranks that choose alike send each ep rank equally many rows: of 4 experts and 16 tokens, 8 go to each of 2.
TEST(StepTime, RowsOfExpertsTakeTheTimeOfTheirBytes) {
  const auto exchanged = [](const char* hidden) {
    NamedValues options = job_of("1", "2", "1");
    for (auto& [name, value] : options)
      if (name == "hidden-size") value = hidden;
    options.insert(options.end(), {{"num-experts", "4"},
                                   {"expert-model-parallel-size", "2"},
                                   {"moe-router-topk", "2"},
                                   {"moe-ffn-hidden-size", "4"},
                                   {"moe-token-dispatcher-type", "alltoall"},
                                   {"disable-bias-linear", "true"},
                                   {"num-query-groups", "4"}});
    const EstimatedStep step = estimated_step(test::scenario_request(options), kSlow);
    return step.critical.calls[traffic_of_kind("ep")];
  };
  // Of 8 tokens with 2 experts each, half of the rows of bf16 go to the other rank, and their outputs come
  // back, forward and backward, in 2 layers and 4 microbatches.
  const double difference = 8.0 * 16 * 2 * 4 * 2 * 4;
  EXPECT_LE(std::abs(exchanged("32") - exchanged("16") - difference / kSlow.bytes_per_second_across_nodes),
            kNanosecond * 64);
}

TEST(StepTime, AStepThatIsNotCountedIsRefused) {
  const auto code_of = [](NamedValues options) {
    const ScenarioRequest request = test::scenario_request(options);
    return test::refusal_code([&] { estimated_step(request, kSlow); });
  };
  NamedValues further_tokens = job_of("1", "2", "8");
  further_tokens.insert(further_tokens.end(), {{"mtp-num-layers", "1"}, {"position-embedding-type", "rope"}});
  EXPECT_EQ(code_of(further_tokens), "step_not_counted");
  EXPECT_EQ(code_of({{"world-size", "2"}}), "step_not_counted");
  Machine snail = kSlow;
  snail.multiply_adds_per_second = 1e6;
  NamedValues large = job_of("1", "1", "8");
  for (auto& [name, value] : large) {
    if (name == "hidden-size") value = "1048576";
    if (name == "num-layers") value = "1000";
    if (name == "seq-length") value = "131072";
  }
  const ScenarioRequest request = test::scenario_request(large);
  EXPECT_EQ(test::refusal_code([&] { estimated_step(request, snail); }), "estimate_size");
}

TEST(StepTime, ATraceOfTooManyStepsIsRefused) {
  NamedValues options = job_of("1", "1", "8");
  for (auto& [name, value] : options)
    if (name == "global-batch-size") value = "80000";
  const EstimatedStep step = estimated_step(test::scenario_request(options), kSlow);
  EXPECT_EQ(test::refusal_code([&] { estimate_trace(step); }), "trace_size");
}

/// Charts count the shortest step as one unit, and no step is drawn over another one.
TEST(StepTime, TheChartKeepsTheOrderOfSteps) {
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const EstimatedStep step =
        estimated_step(test::scenario_request(test::full_size_options(seed, seed % 2 == 1)), kSlow);
    for (const auto& rank : chart_timeline(step).timeline.ranks) {
      std::int64_t now = 0;
      for (const sim::TimedStep& timed : rank) {
        EXPECT_GE(timed.begin, now);
        EXPECT_GT(timed.end, timed.begin);
        now = timed.end;
      }
    }
  }
}

TEST(StepTime, TheTraceHasEveryStepOfEveryRank) {
  const EstimatedStep step = estimated_step(test::scenario_request(test::full_size_options(1)), kSlow);
  const auto trace = nlohmann::json::parse(estimate_trace(step));
  std::size_t slices = 0, steps = 0;
  for (const auto& event : trace["traceEvents"]) slices += event["ph"] == "X" ? 1U : 0U;
  for (const auto& rank : step.timeline.ranks) steps += rank.size();
  for (const sim::TimedStep& end : step.timeline.ends) steps += end.end > end.begin ? 1U : 0U;
  EXPECT_EQ(slices, steps);
  EXPECT_EQ(trace["otherData"]["estimate"]["seconds"], step.seconds);
}

}  // namespace
