// Proves in the field that a chain of stages on virtual ranks computes what the stages compute one after
// another on one device, for every schedule.

#include "sim/pipeline/run_schedule.h"

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/pipeline/schedules.h"
#include "sim/tensor/matmul.h"
#include "sim/world/simulate.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/split_batches.h"

namespace {

using namespace sim;

constexpr std::int64_t kTokens = 2, kHidden = 3;
const StageTensor kWire = {DType::field, {kTokens, kHidden}};

KeyedRandom keys() { return KeyedRandom(7); }
Tensor drawn(Device& device, const Shape& shape, const char* name, int index) {
  return keyed(device, DType::field, shape, keys().named(name), index * 1000);
}

/// One stage of the model: a weight matrix, its gradient, and the input saved for each microbatch in flight.
class LinearStage {
 public:
  LinearStage(Device& device, int stage)
      : weight_(drawn(device, {kHidden, kHidden}, "weight", stage)),
        grad_(filled(device, DType::field, {kHidden, kHidden}, 0)) {}
  Tensor forward(int microbatch, const Tensor& input) {
    saved_[microbatch] = input;
    return matmul(input, transposed(weight_));
  }
  Tensor backward(int microbatch, const Tensor& grad_output) {
    const Tensor input = saved_.extract(microbatch).mapped();
    add_matmul(transposed(grad_output), input, grad_);
    return matmul(grad_output, weight_);
  }
  const Tensor& grad() const { return grad_; }

 private:
  Tensor weight_;
  Tensor grad_;
  std::map<int, Tensor> saved_;
};

/// The stages of one rank, one for each chunk.
class LinearStages : public StageProgram {
 public:
  LinearStages(Rank& rank, const PipelineShape& shape, int place)
      : rank_(rank), shape_(shape), place_(place), completed_(static_cast<std::size_t>(shape.chunks())) {
    for (int chunk = 0; chunk < shape.chunks(); ++chunk)
      stages_.emplace_back(rank.device, chunk * shape.ranks() + place);
  }

  Tensor forward(int microbatch, int chunk, const Tensor& input) override {
    const bool is_first = place_ == 0 && chunk == 0;
    EXPECT_EQ(input.is_none(), is_first);
    const Tensor own = is_first ? drawn(rank_.device, kWire.shape, "input", microbatch) : input;
    Tensor output = stage(chunk).forward(microbatch, own);
    if (!is_last(chunk)) return output;
    rank_.publish("output " + std::to_string(microbatch), output);
    return Tensor();
  }
  Tensor backward(int microbatch, int chunk, const Tensor& grad_output) override {
    EXPECT_EQ(grad_output.is_none(), is_last(chunk));
    const Tensor own = is_last(chunk) ? drawn(rank_.device, kWire.shape, "grad", microbatch) : grad_output;
    Tensor grad_input = stage(chunk).backward(microbatch, own);
    if (place_ > 0 || chunk > 0) return grad_input;
    rank_.publish("grad_input " + std::to_string(microbatch), grad_input);
    return Tensor();
  }
  void grads_are_complete(int chunk) override {
    ++completed_[static_cast<std::size_t>(chunk)];
    rank_.publish("grad " + std::to_string(chunk * shape_.ranks() + place_), stage(chunk).grad());
  }
  const std::vector<int>& completed() const { return completed_; }

 private:
  LinearStage& stage(int chunk) { return stages_[static_cast<std::size_t>(chunk)]; }
  bool is_last(int chunk) const { return place_ == shape_.ranks() - 1 && chunk == shape_.chunks() - 1; }

  Rank& rank_;
  PipelineShape shape_;
  int place_;
  std::vector<LinearStage> stages_;
  std::vector<int> completed_;
};

using Values = std::map<std::string, std::vector<std::byte>>;

/// Returns what the microbatches give when they go one after another through all stages on one device.
Values serial(const PipelineShape& shape) {
  CpuDevice device;
  Values values;
  std::vector<LinearStage> stages;
  for (int stage = 0; stage < shape.ranks() * shape.chunks(); ++stage) stages.emplace_back(device, stage);
  for (int microbatch = 0; microbatch < shape.microbatches(); ++microbatch) {
    const std::string number = std::to_string(microbatch);
    Tensor x = drawn(device, kWire.shape, "input", microbatch);
    for (LinearStage& stage : stages) x = stage.forward(microbatch, x);
    values["output " + number] = host_bytes(x);
    if (shape.forward_only) continue;
    Tensor grad = drawn(device, kWire.shape, "grad", microbatch);
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
      grad = stage->backward(microbatch, grad);
    values["grad_input " + number] = host_bytes(grad);
  }
  for (std::size_t stage = 0; stage < stages.size() && !shape.forward_only; ++stage)
    values["grad " + std::to_string(stage)] = host_bytes(stages[stage].grad());
  return values;
}

Values published(const RunReport& report) {
  Values values;
  for (const RankReport& rank : report.ranks) {
    for (const Published& tensor : rank.published) values[tensor.name] = tensor.values;
  }
  return values;
}

WorldSpec world_of_pipeline(const PipelineShape& shape) {
  ParallelSizes sizes;
  sizes.world_size = shape.pipeline_model_parallel_size;
  sizes.pipeline_model_parallel_size = shape.pipeline_model_parallel_size;
  return {.layout = make_layout(sizes, RuleBook::megatron)};
}

RankProgram program_of(const PipelineSchedule& schedule) {
  return [&schedule](Rank& rank) {
    Communicator& pp = rank.groups.get("pp");
    LinearStages stages(rank, schedule.shape, pp.rank());
    const RankSchedule& own = schedule.ranks[static_cast<std::size_t>(pp.rank())];
    EXPECT_EQ(run_schedule(rank, pp, schedule.shape, own, stages, kWire), own.peak_live);
    const int completed = schedule.shape.forward_only ? 0 : 1;
    for (const int times : stages.completed()) EXPECT_EQ(times, completed);
  };
}

RC_GTEST_PROP(RunSchedule, ComputesWhatTheStagesComputeOneAfterAnother, ()) {
  auto [named, shape] = test::drawn_pipeline();
  shape.forward_only = *rc::gen::inRange(0, 4) == 0;
  const PipelineSchedule schedule = make_schedule(named.function, shape);
  WorldSpec spec = world_of_pipeline(shape);
  spec.schedule = {.policy = SchedulePolicy::uniform, .seed = *rc::gen::arbitrary<std::uint64_t>()};
  spec.threads = *rc::gen::inRange(1, 3);
  CpuDevice device;
  const RunReport report = simulate(spec, device, program_of(schedule));
  if (!report.ok()) RC_FAIL(report.failure());
  RC_ASSERT(published(report) == serial(shape));
}

/// A stage that returns the same tensor from every step.
class SameOutput : public StageProgram {
 public:
  explicit SameOutput(Tensor output) : output_(std::move(output)) {}
  Tensor forward(int, int, const Tensor&) override { return output_; }
  Tensor backward(int, int, const Tensor&) override { return output_; }

 private:
  Tensor output_;
};

// The simulated world finds what the timeline predicts: sends that are not coupled with receives wait
// for each other, unless they are eager.
TEST(RunSchedule, UncoupledSendsDeadlock) {
  PipelineSchedule schedule = make_schedule(one_forward_one_backward, {3, 6});
  test::split_batches(schedule);
  CpuDevice device;
  WorldSpec spec = world_of_pipeline(schedule.shape);
  const RunReport report = simulate(spec, device, program_of(schedule));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.findings[0].code, "deadlock");
  EXPECT_NE(report.failure().find("pipeline.send_forward"), std::string::npos) << report.failure();
  spec.eager_bytes = 1 << 20;
  EXPECT_TRUE(simulate(spec, device, program_of(schedule)).ok());
}

// Nothing hangs and every message has the right size, so only the values show the mistake.
TEST(RunSchedule, SwappedMessagesOfTwoRanksAreSeenInTheField) {
  PipelineSchedule schedule = make_schedule(interleaved, {2, 4, 2});
  CpuDevice device;
  const WorldSpec spec = world_of_pipeline(schedule.shape);
  EXPECT_EQ(published(simulate(spec, device, program_of(schedule))), serial(schedule.shape));
  test::order_as_megatrons_batch(schedule);
  const RunReport report = simulate(spec, device, program_of(schedule));
  ASSERT_TRUE(report.ok()) << report.failure();
  EXPECT_NE(published(report), serial(schedule.shape));
}

// This happens when one rank forgets that sequence parallelism cuts the tensor that is sent (Megatron-LM
// 6bd74b0e84).
TEST(RunSchedule, AReceiveBufferOfAnotherShapeIsFound) {
  const PipelineShape shape{2, 2};
  CpuDevice device;
  const RunReport report = simulate(world_of_pipeline(shape), device, [&](Rank& rank) {
    const StageTensor wire = {DType::field, {kTokens * (1 + rank.id), kHidden}};
    SameOutput stage(filled(rank.device, DType::field, wire.shape, 1));
    run_schedule(rank, rank.groups.get("pp"), shape, gpipe(shape, rank.id), stage, wire);
  });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.findings[0].code, "message_size_mismatch");
}

TEST(RunSchedule, NamesItsBatchesAsMegatronDoes) {
  const PipelineSchedule schedule = make_schedule(one_forward_one_backward, {2, 3});
  CpuDevice device;
  const RunReport report = simulate(world_of_pipeline(schedule.shape), device, program_of(schedule));
  ASSERT_TRUE(report.ok()) << report.failure();
  std::vector<std::string> sites;
  for (const CallRecord& call : report.ranks[0].calls) sites.emplace_back(call.site.name);
  const std::string coupled = "pipeline.send_forward_recv_backward";
  EXPECT_EQ(sites, (std::vector<std::string>{"pipeline.send_forward", coupled, coupled, coupled, coupled,
                                             "pipeline.recv_backward"}));
}

/// Expects the program to be refused with `code` before anything is sent.
void expect_refused(const char* code, const PipelineShape& shape, const RankProgram& program) {
  CpuDevice device;
  const RunReport report = simulate(world_of_pipeline(shape), device, program);
  ASSERT_FALSE(report.ok()) << code;
  EXPECT_EQ(report.findings[0].code, code) << report.failure();
}

TEST(RunSchedule, RefusesWhatDoesNotFit) {
  const PipelineShape shape{2, 2};
  expect_refused("schedule_group", shape, [](Rank& rank) {
    const PipelineShape larger{3, 2};
    SameOutput stage{Tensor()};
    run_schedule(rank, rank.groups.get("pp"), larger, gpipe(larger, 0), stage, kWire);
  });
  expect_refused("schedule_order", shape, [&](Rank& rank) {
    RankSchedule own = gpipe(shape, rank.id);
    if (rank.id == 0) own.actions.erase(own.actions.begin() + 1);
    SameOutput stage(filled(rank.device, DType::field, kWire.shape, 1));
    run_schedule(rank, rank.groups.get("pp"), shape, own, stage, kWire);
  });
  for (const bool is_none : {true, false}) {
    expect_refused("stage_output", shape, [&](Rank& rank) {
      SameOutput stage(is_none ? Tensor() : filled(rank.device, DType::field, {1, 1}, 1));
      run_schedule(rank, rank.groups.get("pp"), shape, gpipe(shape, rank.id), stage, kWire);
    });
  }
}

}  // namespace
