// One process of a world on NCCL. nccl_rungs_test.cpp starts one for each rank:
//
//   nccl_ranks MODE RANKS_PER_GPU [SEED] [STEPS]
//
// The mode gpus says that there is a GPU, or why there is none. calls runs random_calls on NCCL, training
// runs three steps of a GPT, the modes of training_of_mode() the same of one with experts or with context
// parallelism, rings adds tensors of the first STEPS of its sizes, and crossed runs two messages of each pair
// of ranks. These modes compare with the same world simulated on CPU devices, bit for bit. late leaves one
// rank out of a call, throws makes one rank throw instead, and dies makes one rank end before all tell each
// other what they found. The exit codes are those of the program.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/nccl/nccl_cluster.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/gpu/little_training.h"
#include "tests/gpu/nccl_dtypes.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/rank_comparison.h"

namespace {

using namespace sim;

struct Words {
  std::string mode;
  int ranks_per_gpu = 1;
  std::uint64_t seed = 0;
  int steps = 100;
};

Layout layout_of(const Words& words, int ranks) {
  if (const auto training = test::training_of_mode(words.mode, ranks, DType::f32)) return training->layout;
  const int tp = ranks % 2 == 0 ? 2 : 1;
  const int pp = ranks % 4 == 0 ? 2 : 1;
  return make_layout(
      {.world_size = ranks, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      RuleBook::megatron);
}

/// Adds f32 and bf16 tensors in all reductions. The last size is several pieces of NCCL's buffers, and not
/// every transport moves it in good time.
void add_in_rings(Rank& rank, int sizes) {
  Communicator& world = rank.groups.world();
  const int n = world.size();
  constexpr std::array<std::int64_t, 5> kCounts = {1, 33, 4'099, 262'147, 3'145'741};
  const auto used = std::clamp(static_cast<std::size_t>(sizes), std::size_t{1}, kCounts.size());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (std::size_t size = 0; size < used; ++size) {
      const std::int64_t count = kCounts[size];
      const KeyedRandom random =
          rank.random.named(fmt::format("{} {} of rank {}", name_of(dtype), count, rank.id));
      const Tensor all = keyed(rank.device, dtype, {count}, random.named("all_reduce"));
      world.all_reduce(all, ReduceOp::sum, "rings.all_reduce");
      rank.publish("all_reduce", all);
      const Tensor whole = keyed(rank.device, dtype, {n * count}, random.named("reduce_scatter"));
      const Tensor block = filled(rank.device, dtype, {count}, 0);
      world.reduce_scatter(whole, block, ReduceOp::sum, "rings.reduce_scatter");
      rank.publish("reduce_scatter", block);
      const Tensor rooted = keyed(rank.device, dtype, {count}, random.named("reduce"));
      const int root = static_cast<int>(size) % n;
      world.reduce(rooted, ReduceOp::sum, root, "rings.reduce");
      if (rank.id == root) rank.publish("reduce", rooted);
    }
  }
}

/// Each pair of ranks exchanges two messages in two groups, and each rank begins with another one.
/// Nobody waits before both have begun.
void cross_messages(Rank& rank) {
  Communicator& world = rank.groups.world();
  Communicator& tp = rank.groups.get("tp");
  const Tensor out = keyed(rank.device, DType::f32, {5}, rank.random, rank.id * 5);
  const Tensor in = filled(rank.device, DType::f32, {5}, 0);
  const bool is_even = rank.id % 2 == 0;
  const int peer = rank.id ^ 1;
  Work first = is_even ? world.start_send(out, peer, "crossed.send") : tp.start_send(out, 0, "crossed.send");
  Work second = is_even ? tp.start_recv(in, 1, "crossed.recv") : world.start_recv(in, peer, "crossed.recv");
  first.wait();
  second.wait();
  rank.publish("in", in);
}

RankProgram program_of(const Words& words, const Layout& layout) {
  if (words.mode == "rings") return [sizes = words.steps](Rank& rank) { add_in_rings(rank, sizes); };
  if (words.mode == "crossed") return cross_messages;
  if (words.mode == "training")
    return [config = test::little_gpt(DType::f32, layout.pp, 3)](Rank& rank) { test::train(rank, config); };
  if (const auto training = test::training_of_mode(words.mode, layout.world_size, DType::f32))
    return [config = training->config](Rank& rank) { test::train(rank, config); };
  if (words.mode == "late") {
    return [](Rank& rank) {
      if (rank.id != 0) rank.groups.world().barrier("late.barrier");
    };
  }
  if (words.mode == "throws") {
    return [](Rank& rank) {
      if (rank.id == 1) throw std::runtime_error("planted");
      rank.groups.world().barrier("throws.barrier");
    };
  }
  return [words](Rank& rank) {
    verify::random_calls(rank, {.seed = words.seed, .steps = words.steps, .dtypes = test::kNcclDTypes});
  };
}

int run(const Words& words) {
  const Launch launch = detect_launch({}, environment_of_process());
  const Layout layout = layout_of(words, launch.world_size);
  const std::chrono::seconds deadline(words.mode == "late" || words.mode == "crossed" ? 5 : 60);
  gpu::NcclCluster cluster({.launch = launch,
                            .program_version = "test",
                            .options = {.ranks_per_gpu = words.ranks_per_gpu, .deadline = deadline}});
  const RankProgram program = program_of(words, layout);
  const ProcessReport real = cluster.run({.layout = layout}, program);
  WorldSpec spec = world_of(1);
  spec.layout = layout;
  spec.reduction_order.kind = ReductionOrderKind::nccl_ring;
  CpuDevice device;
  const RunReport expected = simulate(spec, device, program);
  const std::string differs =
      expected.ok()
          ? verify::compare_ranks(expected.ranks[static_cast<std::size_t>(launch.rank)], real.rank, "nccl")
                .difference
          : expected.failure();
  if (!differs.empty()) fmt::print(stderr, "{}\n", differs);
  if (words.mode == "dies" && launch.rank == 1) std::_Exit(9);
  const Conclusion conclusion = cluster.finish({differs.empty(), differs});
  cluster.close();
  if (launch.rank == 0)
    fmt::print("{} tensors and {} calls of rank 0\n", real.rank.published.size(), real.rank.calls.size());
  return conclusion.exit_code;
}

/// Says that there is a GPU. If there is none, opening the device is refused with the reason.
int say_gpus() {
  gpu::open_nccl()->open_device(0, 0, gpu::GpuMode::exact);
  fmt::print("a GPU\n");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  Words words{.mode = count > 1 ? arguments[1] : "calls"};
  if (count > 2) words.ranks_per_gpu = std::atoi(arguments[2]);
  if (count > 3) words.seed = static_cast<std::uint64_t>(std::atoll(arguments[3]));
  if (count > 4) words.steps = std::atoi(arguments[4]);
  try {
    return words.mode == "gpus" ? say_gpus() : run(words);
  } catch (const Error& error) {
    fmt::print("{}", text_of(error.refusal()));
    return 2;
  }
}
