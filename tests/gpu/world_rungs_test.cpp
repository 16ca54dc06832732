// Proves rungs 09, 12 and 13 of the GPU ladder: many ranks on one GPU, and a whole training step, also with
// experts. Rungs 10 and 11 need NCCL.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sim/tensor/activation.h"
#include "sim/tensor/counting_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/gpu/both_devices.h"
#include "tests/gpu/little_training.h"

namespace {

using namespace sim;

/// Returns "" if the ranks of both devices published the same and made the same calls.
std::string difference(test::BothDevices& both, const WorldSpec& spec, const RankProgram& program) {
  const RunReport expected = simulate(spec, both.cpu(), program);
  if (!expected.ok()) return expected.failure();
  const RunReport found = simulate(spec, both.gpu(), program);
  if (!found.ok()) return found.failure();
  for (std::size_t rank = 0; rank < expected.ranks.size(); ++rank) {
    const auto& left = expected.ranks[rank].published;
    const auto& right = found.ranks[rank].published;
    if (left.size() != right.size()) return "another number of tensors";
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::string differs = test::first_difference(left[i].dtype, left[i].values, right[i].values);
      if (!differs.empty()) return "rank " + std::to_string(rank) + ", " + left[i].name + ": " + differs;
      both.count(left[i].shape.count());
    }
  }
  return expected.run_hash == found.run_hash ? "" : "another run hash";
}

struct Step {
  int call;
  std::int64_t count;
  ReduceOp op;
};

/// There is work on the stream before and after each call, so that a call that does not wait for the
/// work of another rank is detected.
void take(Rank& rank, const Step& step, DType dtype, int number) {
  Communicator& world = rank.groups.world();
  const int n = world.size();
  const auto own = [&](std::int64_t count) {
    Tensor x = keyed(rank.device, dtype, {count}, rank.random, (number * 1000 + rank.id) * 4096);
    for (int i = 0; i < 3; ++i) x = activate(Activation::gelu_tanh, x);
    return x;
  };
  Tensor out = own(step.count);
  if (step.call == 0) {
    world.all_reduce(out, step.op, "step.all_reduce");
  } else if (step.call == 1) {
    out = own(step.count * n);
    world.all_gather(own(step.count), out, "step.all_gather");
  } else if (step.call == 2) {
    world.reduce_scatter(own(step.count * n), out, step.op, "step.reduce_scatter");
  } else if (step.call == 3) {
    out = own(step.count * n);
    world.all_to_all(own(step.count * n), out, "step.all_to_all");
  } else if (step.call == 4) {
    Work work = world.start_broadcast(out, number % n, "step.broadcast");
    const Tensor meanwhile = own(step.count);
    work.wait();
    add_to(out, meanwhile);
  } else if (step.call == 5) {
    world.reduce(out, step.op, number % n, "step.reduce");
  } else if (n > 1) {
    const Tensor sent = own(step.count);
    Work receive = world.start_recv(out, (rank.id + n - 1) % n, "step.recv");
    world.send(sent, (rank.id + 1) % n, "step.send");
    receive.wait();
  }
  out = activate(Activation::silu, out);
  rank.publish("out", out);
}

WorldSpec drawn_world(int ranks) {
  WorldSpec spec = world_of(ranks);
  spec.schedule = {.policy = *rc::gen::element(SchedulePolicy::round_robin, SchedulePolicy::uniform),
                   .seed = *rc::gen::arbitrary<std::uint64_t>()};
  spec.threads = *rc::gen::inRange(1, 4);
  spec.reduction_order.kind = *rc::gen::element(ReductionOrderKind::rank_order, ReductionOrderKind::nccl_ring,
                                                ReductionOrderKind::shuffled);
  return spec;
}

TEST(Gpu09Collectives, OfVirtualRanksOnOneGpu) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("09 collectives", gpu.device);
  EXPECT_TRUE(rc::check([&] {
    const DType dtype = test::drawn_float();
    std::vector<Step> steps;
    const int count = *rc::gen::inRange(1, 6);
    for (int i = 0; i < count; ++i) {
      steps.push_back({*rc::gen::inRange(0, 7), *rc::gen::element<std::int64_t>(0, 1, 5, 64, 1300),
                       *rc::gen::element(ReduceOp::sum, ReduceOp::max, ReduceOp::average)});
    }
    const std::string differs = difference(both, drawn_world(*rc::gen::inRange(1, 7)), [&](Rank& rank) {
      for (std::size_t i = 0; i < steps.size(); ++i) take(rank, steps[i], dtype, static_cast<int>(i));
    });
    RC_ASSERT(differs == "");
  }));
}

// There are more ranks than streams, and the device is wrapped in another device.
TEST(Gpu09Collectives, OfMoreRanksThanStreams) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("09 collectives of 70 ranks, counted",
                         std::make_shared<CountingDevice>(*gpu.device));
  WorldSpec spec = world_of(70);
  spec.threads = 3;
  EXPECT_EQ(difference(both, spec,
                       [](Rank& rank) {
                         for (int call = 0; call < 7; ++call)
                           take(rank, {call, 9, ReduceOp::sum}, DType::f32, call);
                       }),
            "");
}

TEST(Gpu12Training, ThreeStepsOfAGpt) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("12 training", gpu.device);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const int variant : {0, 1, 2}) {
      if (dtype == DType::f64 && variant != 1) continue;
      if (dtype == DType::bf16 && variant == 2) continue;
      GptTrainingConfig config = test::little_gpt(dtype, 2, 3);
      if (variant == 1) {
        config.model.sequence_parallel = true;
        config.model.rotary_base = 10000;
        config.model.normalization = Norm::rms_norm;
        config.model.activation = Activation::silu;
        config.model.gated = true;
        config.model.bias = false;
        config.model.untie_embeddings_and_output_weights = true;
      }
      if (variant == 2) {
        config.model.activation = Activation::gelu_erf;
        config.model.recompute = true;
        config.data_parallel.distributed_optimizer = false;
      }
      WorldSpec spec = world_of(8);
      spec.layout =
          make_layout({.world_size = 8, .tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2},
                      RuleBook::megatron);
      spec.threads = 2;
      spec.schedule = {.policy = SchedulePolicy::uniform, .seed = 3};
      EXPECT_EQ(difference(both, spec, [&](Rank& rank) { test::train(rank, config); }), "")
          << name_of(dtype) << " variant " << variant;
    }
  }
}

/// Expects that the trainings of these modes are the same on both devices, on 4 and on 8 ranks.
void expect_equal_trainings(test::BothDevices& both, std::initializer_list<const char*> modes) {
  for (const char* mode : modes) {
    for (const auto& [ranks, dtype] :
         {std::pair(4, DType::f32), std::pair(8, DType::f32), std::pair(8, DType::bf16)}) {
      const auto training = test::training_of_mode(mode, ranks, dtype);
      WorldSpec spec = world_of(ranks);
      spec.layout = training->layout;
      spec.threads = 2;
      spec.schedule = {.policy = SchedulePolicy::uniform, .seed = 3};
      EXPECT_EQ(difference(both, spec, [&](Rank& rank) { test::train(rank, training->config); }), "")
          << mode << " on " << ranks << " ranks, " << name_of(dtype);
    }
  }
}

// Choices of experts are made on the host, from scores that the GPU computed, and the sizes of messages
// follow from them.
TEST(Gpu13Experts, ThreeStepsOfAGptWithExperts) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("13 training with experts", gpu.device);
  expect_equal_trainings(both, {"experts-allgather", "experts-alltoall", "experts-flex"});
}

TEST(Gpu14Context, ThreeStepsOfAGptWithContextParallelism) {
  GPU_OR_SKIP(gpu);
  test::BothDevices both("14 training with context parallelism", gpu.device);
  expect_equal_trainings(both, {"context-p2p", "context-all_gather", "context-a2a", "context-a2a+p2p"});
}

}  // namespace
