// Proves the values of gradient scaling, learning rate and loss scale as pure functions, and what the
// optimizer and its buffers refuse.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/optimizer/distributed_optimizer.h"
#include "sim/optimizer/learning_rate.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

template <typename Body>
void expect_refused(const char* code, const Body& body) {
  try {
    body();
    ADD_FAILURE() << "not refused: " << code;
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().code, std::string(code));
  }
}

double value(Ratio ratio) {
  return static_cast<double>(ratio.numerator) / static_cast<double>(ratio.denominator);
}

RC_GTEST_PROP(GradientScaling, IsOneOverTheReplicasForDenseAndExpert, ()) {
  const int e = *rc::gen::inRange(1, 9), n = e * *rc::gen::inRange(1, 9);
  const bool average = *rc::gen::arbitrary<bool>();
  const ScalingSetting setting{.dp_cp = n, .edp = e, .average_in_collective = average};
  for (const bool is_expert : {false, true}) {
    const GradientScaling scaling = gradient_scaling(setting, is_expert);
    const double of_collective = average ? 1.0 / (is_expert ? e : n) : 1.0;
    // `before` times the factor of the collective is 1/n. The test compares whole numbers.
    RC_ASSERT(scaling.before.numerator * n ==
              scaling.before.denominator * (average ? (is_expert ? e : n) : 1));
    RC_ASSERT((scaling.reduce == ReduceOp::average) == average);
    RC_ASSERT(of_collective > 0);
  }
  RC_ASSERT(gradient_scaling({.dp_cp = n, .edp = e, .per_token_loss = true}, false) == GradientScaling{});
}

TEST(GradientScaling, KnowsWhatDoesNotGoTogether) {
  expect_refused("gradient_scaling",
                 [] { gradient_scaling({.average_in_collective = true, .per_token_loss = true}, false); });
  expect_refused("gradient_scaling", [] { gradient_scaling({.dp_cp = 0}, false); });
}

TEST(LearningRate, WarmsUpAndDecays) {
  const LearningRateConfig config{
      .initial = 0, .peak = 1, .least = 0.25, .warmup_steps = 4, .decay_steps = 12, .decay = Decay::cosine};
  EXPECT_EQ(value(learning_rate(config, 0)), 0);
  EXPECT_EQ(value(learning_rate(config, 1)), 0.25);
  EXPECT_EQ(value(learning_rate(config, 4)), 1);
  EXPECT_EQ(value(learning_rate(config, 8)), 0.625);  // halfway down the cosine
  EXPECT_EQ(value(learning_rate(config, 12)), 0.25);
  EXPECT_EQ(value(learning_rate(config, 1000)), 0.25);
  EXPECT_EQ(value(learning_rate({.peak = 0.5}, 7)), 0.5);
  expect_refused("learning_rate", [&] { learning_rate(config, -1); });
  expect_refused("learning_rate",
                 [] { learning_rate({.warmup_steps = 5, .decay_steps = 5, .decay = Decay::cosine}, 0); });
}

RC_GTEST_PROP(LossScale, IsMadeOfPowersInTheirRange, ()) {
  const auto power =
      rc::gen::element(-1, 0, 1, kMostLossScalePower - 1, kMostLossScalePower, kMostLossScalePower + 1);
  const LossScaleConfig config{.initial_power = *power, .least_power = *power};
  bool is_made = true;
  try {
    static_cast<void>(LossScale(config));
  } catch (const Error&) {
    is_made = false;
  }
  const int initial = config.initial_power, least = config.least_power;
  RC_ASSERT(is_made == (0 <= least && least <= initial && initial <= kMostLossScalePower));
}

RC_GTEST_PROP(LossScale, MayBeInEveryStateThatItReaches, ()) {
  const int least = *rc::gen::inRange(0, 4);
  const LossScaleConfig config{.initial_power = least + *rc::gen::inRange(0, 3),
                               .least_power = least,
                               .growth_interval = *rc::gen::inRange(0, 4),
                               .hysteresis = *rc::gen::inRange(1, 4)};
  LossScale scale(config);
  RC_ASSERT(scale.may_be(scale.state()));
  for (const bool found_nonfinite : *rc::gen::arbitrary<std::vector<bool>>()) {
    scale.update(found_nonfinite);
    RC_ASSERT(LossScale(config).may_be(scale.state()));
  }
}

TEST(LossScale, HalvesAfterBadStepsAndDoublesAfterManyGoodOnes) {
  LossScale scale({.initial_power = 4, .least_power = 2, .growth_interval = 3, .hysteresis = 2});
  EXPECT_EQ(value(scale.scale()), 16);
  scale.update(true);
  EXPECT_EQ(value(scale.scale()), 16);  // the first bad step is forgiven
  scale.update(true);
  EXPECT_EQ(value(scale.scale()), 8);
  scale.update(true);  // no further bad step is forgiven until the scale has grown
  scale.update(true);
  scale.update(true);
  EXPECT_EQ(value(scale.scale()), 4);  // the least scale
  for (int i = 0; i < 3; ++i) scale.update(false);
  EXPECT_EQ(value(scale.scale()), 8);
  scale.update(true);
  EXPECT_EQ(value(scale.scale()), 8);
  EXPECT_EQ(value(scale.inverse()) * value(scale.scale()), 1);
  expect_refused("loss_scale", [] { LossScale({.initial_power = 31}); });
  expect_refused("loss_scale", [] { LossScale({.initial_power = 3, .least_power = 4}); });
  expect_refused("loss_scale", [] { LossScale({.least_power = -1}); });
  expect_refused("loss_scale", [] { LossScale({.hysteresis = 0}); });
}

/// Runs on `ranks` data-parallel ranks. Returns the code of the first finding, or "".
template <typename Body>
std::string finding(int ranks, const Body& body) {
  CpuDevice device;
  const RunReport report = simulate(world_of(ranks), device, body);
  return report.ok() ? "" : report.findings.front().code;
}

Parameter parameter_of(Rank& rank, const char* name, DType dtype, std::int64_t size) {
  return make_parameter(rank, name, dtype, {1, size}, {}, {});
}

TEST(DistributedDataParallel, KnowsItsParameters) {
  EXPECT_EQ(finding(2,
                    [](Rank& rank) {
                      Parameter a = parameter_of(rank, "a", DType::f32, 3),
                                b = parameter_of(rank, "b", DType::f64, 3);
                      DistributedDataParallel(rank, {{&a, &b}}, {});
                    }),
            "buffer_dtypes");
  EXPECT_EQ(finding(2,
                    [](Rank& rank) {
                      Parameter a = parameter_of(rank, "a", DType::f32, 3);
                      DistributedDataParallel data_parallel(rank, {{&a}}, {.overlap_grad_reduce = false});
                      data_parallel.grad_ready(a);
                      data_parallel.grad_ready(a);
                    }),
            "grad_ready_twice");
}

/// Trains the parameters for two steps. Each has gradients that follow from its name, and all gradients
/// are small whole numbers.
void train_on(Rank& rank, const std::vector<Parameter*>& parameters) {
  DistributedDataParallel data_parallel(rank, {parameters}, {.bucket_size = 100});
  DistributedOptimizer optimizer(rank, data_parallel, {});
  for (int step = 0; step < 2; ++step) {
    data_parallel.zero_grads();
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      fill((*parameter)->main_grad, rank.id + 1.0 + static_cast<double>((*parameter)->name.size()));
      data_parallel.grad_ready(**parameter);
    }
    data_parallel.finish_grad_sync();
    optimizer.step({1, 8});
  }
  for (const Parameter* parameter : parameters) rank.publish(parameter->name, parameter->value);
}

TEST(DistributedDataParallel, TakesEachDtypeIntoABufferOfItsOwn) {
  CpuDevice device;
  const auto make = [](Rank& rank) {
    return std::vector<Parameter>{parameter_of(rank, "bf", DType::bf16, 70),
                                  parameter_of(rank, "f", DType::f32, 50),
                                  parameter_of(rank, "bf two", DType::bf16, 90)};
  };
  const RunReport together = simulate(world_of(3), device, [&](Rank& rank) {
    std::vector<Parameter> p = make(rank);
    train_on(rank, {&p[0], &p[1], &p[2]});
    DistributedDataParallel data_parallel(rank, {{&p[0], &p[1], &p[2]}}, {});
    rank.publish("parts",
                 filled(rank.device, DType::f32, {1}, static_cast<double>(data_parallel.parts().size())));
  });
  const RunReport apart = simulate(world_of(3), device, [&](Rank& rank) {
    std::vector<Parameter> p = make(rank);
    train_on(rank, {&p[1]});
    train_on(rank, {&p[0], &p[2]});
    rank.publish("parts", filled(rank.device, DType::f32, {1}, 2));
  });
  ASSERT_TRUE(together.ok()) << together.failure();
  ASSERT_TRUE(apart.ok()) << apart.failure();
  for (const char* name : {"bf", "f", "bf two", "parts"})
    EXPECT_EQ(*together.find(1, name), *apart.find(1, name)) << name;
}

TEST(DistributedDataParallel, TakesEachChunkIntoABufferOfItsOwnAndCutsTheFirst) {
  CpuDevice device;
  const RunReport run = simulate(world_of(2), device, [](Rank& rank) {
    Parameter a = parameter_of(rank, "a", DType::f32, 70), b = parameter_of(rank, "b", DType::f32, 50),
              c = parameter_of(rank, "c", DType::f32, 70), d = parameter_of(rank, "d", DType::f32, 50);
    const DistributedDataParallel data_parallel(rank, {{&a, &b}, {&c, &d}}, {.bucket_size = 40});
    ASSERT_EQ(data_parallel.parts().size(), 2U);
    EXPECT_EQ(data_parallel.parts()[0].buffer.buckets(), 2);
    EXPECT_EQ(data_parallel.parts()[1].buffer.buckets(), 1);
    EXPECT_EQ(data_parallel.place_of(d)->part, 1U);
  });
  EXPECT_TRUE(run.ok()) << run.failure();
}

TEST(DistributedDataParallel, RefusesInstancesThatOwnDifferentElements) {
  WorldSpec spec = world_of(8);
  spec.layout = make_layout({.world_size = 8,
                             .context_parallel_size = 2,
                             .expert_model_parallel_size = 2,
                             .expert_tensor_parallel_size = 1,
                             .num_distributed_optimizer_instances = 2,
                             .order = "tp-dp-ep-cp-pp"},
                            RuleBook::megatron);
  CpuDevice device;
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    Parameter a = parameter_of(rank, "a", DType::f32, 300);
    DistributedDataParallel(rank, {{&a}}, {});
  });
  EXPECT_NE(report.failure().find("optimizer_instances"), std::string::npos) << report.failure();
}

TEST(DistributedDataParallel, PoisonsWhatARankDoesNotOwn) {
  EXPECT_EQ(finding(2,
                    [](Rank& rank) {
                      Parameter a = parameter_of(rank, "a", DType::f32, 128);
                      DistributedDataParallel data_parallel(rank, {{&a}}, {});
                      data_parallel.finish_grad_sync();
                      rank.publish("grad", a.main_grad);
                    }),
            "");
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    Parameter a = parameter_of(rank, "a", DType::f32, 128);
    DistributedDataParallel data_parallel(rank, {{&a}}, {});
    data_parallel.finish_grad_sync();
    const auto& part = data_parallel.parts().front();
    const ElementRange own = data_parallel.owned(part, 0);
    rank.publish("own", nonfinite_flag(part.buffer.grads(own)));
    rank.publish("all", nonfinite_flag(part.buffer.grads({0, 128})));
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(report.find(rank, "own")->values, std::vector<std::byte>(4));
    EXPECT_NE(report.find(rank, "all")->values, std::vector<std::byte>(4));
  }
}

TEST(DistributedOptimizer, AParameterIsNotReadBeforeItHasArrived) {
  EXPECT_EQ(finding(2,
                    [](Rank& rank) {
                      Parameter a = parameter_of(rank, "a", DType::f32, 128);
                      DistributedDataParallel data_parallel(rank, {{&a}}, {});
                      DistributedOptimizer optimizer(rank, data_parallel, {.overlap_param_gather = true});
                      data_parallel.finish_grad_sync();
                      optimizer.step({1, 10});
                      optimizer.start_param_gather();
                      static_cast<void>(add(a.value, a.value));
                      optimizer.finish_param_gather();
                    }),
            "buffer_in_flight_read");
}

TEST(DistributedOptimizer, AStepThatIsNotFiniteIsSkippedOnEveryRank) {
  CpuDevice device;
  const RunReport report = simulate(world_of(4), device, [](Rank& rank) {
    Parameter a = parameter_of(rank, "a", DType::f32, 300);
    DistributedDataParallel data_parallel(rank, {{&a}}, {});
    DistributedOptimizer optimizer(rank, data_parallel,
                                   {.loss_scale = {.initial_power = 3, .growth_interval = 2}});
    rank.publish("before", a.value);
    if (rank.id == 2) fill(a.main_grad, std::numeric_limits<double>::infinity());
    data_parallel.finish_grad_sync();
    const bool stepped = optimizer.step({1, 10});
    rank.publish("after", a.value);
    rank.publish("stepped", filled(rank.device, DType::f32, {1}, stepped ? 1 : 0));
    rank.publish("scale", filled(rank.device, DType::f32, {1}, value(optimizer.loss_scale())));
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(report.find(rank, "before")->values, report.find(rank, "after")->values);
    EXPECT_EQ(report.find(rank, "stepped")->values, std::vector<std::byte>(4));
    EXPECT_EQ(report.find(rank, "scale")->values, report.find(0, "scale")->values);
  }
}

TEST(Adam, RefusesStepsAndBetasThatMakeNone) {
  CpuDevice device;
  const Tensor x = filled(device, DType::f32, {3}, 1);
  Tensor p = filled(device, DType::f32, {3}, 1), m = filled(device, DType::f32, {3}, 0), v = m;
  expect_refused("adam_step", [&] { adam(x, {.step = 0}, p, m, v); });
  expect_refused("adam_step", [&] { adam(x, {.beta1 = {1, 1}}, p, m, v); });
}

}  // namespace
