// One process of a world of processes, which mpi_test.cpp starts by mpirun:
//
//   mpi_ranks MODE [SEED] [STEPS]
//
// The mode equal runs random_calls on MPI and simulated and compares the two. The modes of training_of_mode()
// do the same with a training of a GPT. Every other mode plants a defect. The exit codes are those of the
// program.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "sim/base/error.h"
#include "sim/comm/refused_elsewhere.h"
#include "sim/cpu/cpu_device.h"
#include "sim/mpi/cluster.h"
#include "sim/world/simulate.h"
#include "tests/gpu/little_training.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/rank_comparison.h"

namespace {

constexpr int kGuilty = 1;  // the rank in which a defect is planted

/// A wire with a defect in what the guilty rank sends.
class FaultyWire : public sim::Wire {
 public:
  FaultyWire(std::unique_ptr<sim::Wire> wire, bool damages) : wire_(std::move(wire)), damages_(damages) {}
  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void send(int to, sim::Bytes letter) override {
    constexpr int kWrong = 20;
    constexpr std::size_t kWithData = 400;  // bytes
    if (rank() != kGuilty) {
      wire_->send(to, std::move(letter));
    } else if (damages_) {
      if (letter.size() > kWithData) letter.back() ^= std::byte{1};
      wire_->send(to, std::move(letter));
    } else {
      wire_->send(++sent_ == kWrong ? (to + 1 == rank() ? to + 2 : to + 1) % size() : to, std::move(letter));
    }
  }
  std::optional<sim::Arrival> receive() override { return wire_->receive(); }
  void close() override { wire_->close(); }
  void abort(int exit_code) override {
    wire_->abort(exit_code);
    std::_Exit(exit_code);
  }

 private:
  std::unique_ptr<sim::Wire> wire_;
  bool damages_;
  int sent_ = 0;
};

/// A process that stops says nothing, and its clock stands still.
void stop_if(bool stops) {
  if (stops) std::raise(SIGSTOP);
}

/// A wire that never closes on the guilty rank.
class EndlessWire : public sim::Wire {
 public:
  explicit EndlessWire(std::unique_ptr<sim::Wire> wire) : wire_(std::move(wire)) {}
  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void send(int to, sim::Bytes letter) override { wire_->send(to, std::move(letter)); }
  std::optional<sim::Arrival> receive() override { return wire_->receive(); }
  void close() override {
    stop_if(rank() == kGuilty);
    wire_->close();
  }
  void abort(int exit_code) override {
    wire_->abort(exit_code);
    std::_Exit(exit_code);
  }

 private:
  std::unique_ptr<sim::Wire> wire_;
};

struct Words {
  std::string mode;
  std::uint64_t seed = 0;
  int steps = 100;
};

bool is_guilty(const sim::Rank& rank) { return rank.id == kGuilty; }

/// Catches the refusal of its own bad call, and goes on.
void call_without_end(sim::Communicator& world) {
  for (;;) {
    try {
      world.all_reduce(sim::Tensor(), sim::ReduceOp::sum, "defect.refused");
    } catch (const sim::Error&) {
      continue;
    }
  }
}

/// All ranks refuse, and one of them has a reason, as when a checkpoint is loaded.
void refuse_together(bool has_reason) {
  const auto refusal = [](const char* code) {
    return sim::Refusal{.code = code, .option = "a shard", .numbers = "planted", .rule = "", .hint = ""};
  };
  if (has_reason) throw sim::Error(refusal("planted_reason"));
  throw sim::RefusedElsewhere(refusal("planted_elsewhere"));
}

/// Programs with one defect each: what rank kGuilty does.
void run_defect(const std::string& mode, sim::Rank& rank) {
  sim::Communicator& world = rank.groups.world();
  const sim::Tensor x = sim::filled(rank.device, sim::DType::f32, {4}, 1);
  world.barrier("defect.before");
  if (mode == "elsewhere") refuse_together(is_guilty(rank));
  if (is_guilty(rank)) {
    if (mode == "killed") std::raise(SIGKILL);
    if (mode == "hangs") std::this_thread::sleep_for(std::chrono::hours(1));
    if (mode == "leaves") return;
    if (mode == "refused") call_without_end(world);
    if (mode == "throws") throw std::runtime_error("planted");
    if (mode == "forgets") {
      static_cast<void>(world.start_all_reduce(x, sim::ReduceOp::sum, "defect.sum"));
      return;
    }
    if (mode == "sends") world.send(x, 0, "defect.send");
    if (mode == "kind") return world.broadcast(x, 0, "defect.broadcast");
    if (mode == "count") return world.all_reduce(x.rows(0, 3), sim::ReduceOp::sum, "defect.sum");
    if (mode == "dtype")
      return world.all_reduce(sim::cast(x, sim::DType::f64), sim::ReduceOp::sum, "defect.sum");
    if (mode == "reduction") return world.all_reduce(x, sim::ReduceOp::max, "defect.sum");
  }
  world.all_reduce(x, sim::ReduceOp::sum, "defect.sum");
}

sim::ReductionOrder order_of(std::uint64_t seed) {
  return {static_cast<sim::ReductionOrderKind>(seed % 3), seed};
}

sim::Layout layout_of(const Words& words, int ranks) {
  if (const auto training = test::training_of_mode(words.mode, ranks, sim::DType::f32))
    return training->layout;
  const std::uint64_t seed = words.seed;
  const int tp = ranks % 2 == 0 ? 2 : 1;
  const int pp = ranks % 4 == 0 && seed % 2 == 0 ? 2 : 1;
  return sim::make_layout(
      {.world_size = ranks, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      sim::RuleBook::megatron);
}

sim::ClusterSpec spec_of(const Words& words) {
  constexpr std::size_t kSmallPieces = 1000;  // small, so that letters have several pieces
  constexpr std::chrono::seconds kShort{6};
  const bool is_short = words.mode == "hangs" || words.mode == "absent" || words.mode == "sends" ||
                        words.mode == "unstarted" || words.mode == "unended";
  const sim::Launch launch = sim::detect_launch({}, sim::environment_of_process());
  const bool guilty = launch.rank == kGuilty;
  sim::ClusterSpec spec{.launch = launch,
                        .program_version = "test",
                        .configuration = 1,
                        .open_wire = [words, guilty]() -> std::unique_ptr<sim::Wire> {
                          stop_if(words.mode == "unstarted" && guilty);
                          auto wire = sim::open_mpi_wire(kSmallPieces);
                          const bool damages = words.mode == "damaged";
                          if (damages || words.mode == "misdirected")
                            return std::make_unique<FaultyWire>(std::move(wire), damages);
                          if (words.mode == "unended") return std::make_unique<EndlessWire>(std::move(wire));
                          return wire;
                        }};
  if (is_short) spec.deadline = kShort;
  if (words.mode == "configuration" && guilty) spec.configuration = 2;
  if (words.mode == "absent" && guilty) std::this_thread::sleep_for(std::chrono::hours(1));
  if (words.mode == "swapped") spec.launch.rank = spec.launch.world_size - 1 - spec.launch.rank;
  return spec;
}

sim::RankProgram program_of(const Words& words) {
  for (const char* mode : {"equal", "order", "misdirected", "damaged"}) {
    if (words.mode == mode)
      return [words](sim::Rank& rank) {
        verify::random_calls(rank, {.seed = words.seed, .steps = words.steps});
      };
  }
  if (test::training_of_mode(words.mode, 1, sim::DType::f32)) {
    return [words](sim::Rank& rank) {
      test::train(rank, test::training_of_mode(words.mode, rank.layout.world_size, sim::DType::f32)->config);
    };
  }
  return [words](sim::Rank& rank) { run_defect(words.mode, rank); };
}

/// Runs one program on MPI and simulated, and compares the two.
verify::RankComparison run_both(const Words& words, sim::Cluster& cluster, int ranks) {
  const sim::RankProgram program = program_of(words);
  sim::WorldSpec world{.layout = layout_of(words, ranks)};
  world.reduction_order = order_of(words.seed);
  world.eager_bytes = words.seed % 2 == 0 ? 0 : 64;
  world.seed = words.seed;
  sim::ReductionOrder order = world.reduction_order;
  if (words.mode == "order") order = order_of(words.seed + 1);
  const auto device = std::make_shared<sim::CpuDevice>();
  const sim::ProcessReport real = cluster.run({.layout = world.layout,
                                               .reduction_order = order,
                                               .eager_bytes = world.eager_bytes,
                                               .seed = world.seed},
                                              *device, program);
  const sim::RunReport simulated = sim::simulate(world, *device, program);
  if (!simulated.ok()) return {.difference = simulated.failure()};
  return verify::compare_ranks(simulated.ranks[static_cast<std::size_t>(cluster.rank())], real.rank, "mpi");
}

int compare(const Words& words) {
  sim::require_mpi("mpi_ranks");
  sim::Cluster cluster(spec_of(words));
  const int ranks = sim::detect_launch({}, sim::environment_of_process()).world_size;
  const verify::RankComparison comparison = run_both(words, cluster, ranks);
  const sim::Conclusion conclusion = cluster.finish({comparison.is_equal(), comparison.difference});
  if (cluster.rank() == 0) {
    for (const sim::Report& report : conclusion.reports) {
      if (!report.is_equal) fmt::print("{}\n", report.text);
    }
    fmt::print("{} tensors, {} calls of rank 0\n", comparison.tensors, comparison.calls);
    std::fflush(stdout);
  }
  cluster.close();
  return conclusion.exit_code;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  Words words{.mode = arguments[1]};
  if (count > 2) words.seed = std::stoull(arguments[2]);
  if (count > 3) words.steps = std::stoi(arguments[3]);
  try {
    return compare(words);
  } catch (const sim::Error& error) {
    fmt::print(stderr, "refused {}\n", error.what());
    std::fflush(stderr);
    // The first process that ends may end all others before they have printed their message.
    constexpr std::chrono::seconds kForOthers{1};
    std::this_thread::sleep_for(kForOthers);
    return error.refusal().code == "backend_unavailable" ? 4 : 2;
  }
}
