// Proves replay and check on a backend, as far as one process shows them, with a GPU that is a device of this
// machine. Differences are found, bit for bit or against bounds, and requests that cannot be met are refused.

#include "verify/backends/backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <set>
#include <sstream>

#include "gpu/device/gpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/contains.h"
#include "verify/backends/device_backend.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/twin_program.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/faults/faulty_calls.h"
#include "verify/faults/faulty_device.h"
#include "verify/program/backend_check.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"
#include "verify/vocabulary/command_line.h"

namespace {

using test::contains;
using namespace verify;

constexpr const char* kSmall = "replay scenarios/training/train_tp2_pp2_dp2.ini --device cuda";

struct Ran {
  int exit_code = 0;
  std::string out;
  std::string err;
};

/// Runs virtual ranks on this device. Sums are in some other order unless `same` says that they are the same.
class TestBackend : public DeviceBackend {
 public:
  TestBackend(std::shared_ptr<sim::Device> device, SameBits same)
      : DeviceBackend("cuda", std::move(device), same) {}
  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu, const sim::RankProgram& program) override {
    sim::WorldSpec own = world;
    if (!same_bits().sums) own.reduction_order = {sim::ReductionOrderKind::shuffled, ++runs_};
    return DeviceBackend::run(own, cpu, program);
  }

 private:
  std::uint64_t runs_ = 0;
};

Ran run_on(std::shared_ptr<sim::Device> device, const std::string& line, SameBits same = {}) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  std::ostringstream out, err;
  const auto open = [&](const BackendRequest&) { return std::make_unique<TestBackend>(device, same); };
  const int code = run_program(words, {out, err}, {{.kind = "cuda", .open = open}});
  return {code, out.str(), err.str()};
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Runs on the CUDA device whose kernels this processor plays.
TEST(Backend, ReplayOnAGpuThatIsPlayed) {
  const Ran ran = run_on(gpu::make_gpu_device(), kSmall);
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  for (const char* row : {"ok  cuda collectives", "ok  cuda training f32", "ok  cuda training bf16"})
    EXPECT_TRUE(contains(ran.out, row)) << ran.out;
  EXPECT_EQ(count_of(ran.out, "virtual ranks, bit for bit"), 3) << ran.out;
}

TEST(Backend, CheckOnAGpuThatIsPlayed) {
  const Ran ran = run_on(gpu::make_gpu_device(), "check --device cuda --runs 3 --max-world 5 --format json");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const auto document = nlohmann::json::parse(ran.out);
  EXPECT_EQ(document["rows"].size(), all_cases().size());
  for (const auto& row : document["rows"]) {
    EXPECT_TRUE(row["holds"].get<bool>() && row["to_the_bit"].get<bool>()) << row;
    EXPECT_EQ(row["runs"], 3);
    EXPECT_GT(row["tensors"], 0);
  }
}

std::shared_ptr<sim::Device> device_with(const std::string& fault) {
  return std::make_shared<FaultyDevice>(parsed_faults({fault}));
}

// One kernel of one rank is slightly wrong. The bits show it, in every part of the document.
TEST(Backend, OneWrongKernelIsFound) {
  const auto faulty = [] { return device_with("device.matmul:scale=511/512@rank=1"); };
  const Ran replayed = run_on(faulty(), kSmall);
  EXPECT_EQ(replayed.exit_code, 1) << replayed.out;
  EXPECT_TRUE(contains(replayed.out, "ok      cuda collectives")) << replayed.out;
  EXPECT_TRUE(contains(replayed.out, "FAILED  cuda training f32")) << replayed.out;
  EXPECT_TRUE(contains(replayed.out,
                       "rank 0: tensor 'grad norm squared of step 0', element 0 of 1 (f32): simulated "))
      << replayed.out;
  EXPECT_TRUE(contains(
      replayed.out, "reproduce: ./shardproof replay scenarios/training/train_tp2_pp2_dp2.ini --device cuda"))
      << replayed.out;
  const Ran checked = run_on(faulty(), "check --device cuda --case mlp,parallel_dropout");
  EXPECT_EQ(checked.exit_code, 1) << checked.out;
  EXPECT_TRUE(contains(checked.out, "FALSIFIED") && contains(checked.out, "equal, bit for bit"))
      << checked.out;
  EXPECT_TRUE(contains(checked.out, "reproduce  ./shardproof check --device cuda --case mlp")) << checked.out;
}

/// A row-parallel linear layer that forgets the sum of its forward pass.
class ForgetsTheSum : public Case {
 public:
  std::string name() const override { return "forgets_the_sum"; }
  std::vector<Dimension> dimensions() const override { return right_.dimensions(); }
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override { return right_.outputs(s); }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return right_.calls(s); }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    with_faults([&](sim::Rank& faulty) { right_.run(faulty, s); },
                parsed_faults({"row_parallel_linear.forward:skip"}))(rank);
  }
  Wholes<sim::Field> serial(const Inputs<sim::Field>& inputs, const CaseSetting& s) const override {
    return right_.serial(inputs, s);
  }
  Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                    const CaseSetting& s) const override {
    return right_.serial(inputs, s);
  }

 private:
  const Case& right_ = *find_case("row_parallel_linear");
};

// Such a layer does the same on its backend as on virtual ranks, bit for bit.
TEST(Backend, AWrongLayerIsFalsifiedThoughItsRanksEqualTheirTwins) {
  CaseList cases;
  cases.push_back(std::make_unique<ForgetsTheSum>());
  for (const SameBits same : {SameBits{}, SameBits{.sums = false}}) {
    std::ostringstream out, err;
    const auto open = [&](const BackendRequest&) {
      return std::make_unique<TestBackend>(gpu::make_gpu_device(), same);
    };
    const CommandLine line = parse_command_line({"check", "--device", "cuda", "--dtype", "f32"});
    const int code = check_cases({line, {{.kind = "cuda", .open = open}}, {out, err}, "./mine"}, cases);
    EXPECT_EQ(code, 1) << out.str() << err.str();
    EXPECT_TRUE(contains(out.str(), "FALSIFIED")) << out.str();
    EXPECT_TRUE(contains(out.str(), ": on virtual ranks, serial: output(")) << out.str();
    EXPECT_TRUE(contains(out.str(), "reproduce  ./mine check --device cuda --dtype f32 --case")) << out.str();
  }
}

// Sums come in any order here. What has no rounding must be equal to the bit, and the rest must stay
// within its bounds. A defect is larger than the bounds.
TEST(Backend, SumsInAnyOrderAreHeldToBounds) {
  const SameBits any{.sums = false};
  const auto cpu = [] { return std::make_shared<sim::CpuDevice>(); };
  const Ran bits = run_on(cpu(), kSmall, {.sums = true});
  EXPECT_EQ(bits.exit_code, 0) << bits.out;
  const Ran bounds = run_on(cpu(), kSmall, any);
  EXPECT_EQ(bounds.exit_code, 0) << bounds.out;
  EXPECT_EQ(count_of(bounds.out, "virtual ranks, bit for bit"), 1) << bounds.out;
  EXPECT_EQ(count_of(bounds.out, "within the bounds of the serial reference"), 1) << bounds.out;
  const Ran checked = run_on(cpu(), "check --device cuda --runs 4", any);
  EXPECT_EQ(checked.exit_code, 0) << checked.out;
  EXPECT_EQ(count_of(checked.out, "within bounds"), static_cast<int>(all_cases().size())) << checked.out;
  const auto faulty = device_with("device.activate:scale=2@rank=1");
  EXPECT_EQ(run_on(faulty, "check --device cuda --case mlp --dtype f32", any).exit_code, 1);
  EXPECT_EQ(run_on(faulty, kSmall, any).exit_code, 1);
}

class Processes : public TestBackend {
 public:
  explicit Processes(int processes)
      : TestBackend(std::make_shared<sim::CpuDevice>(), {}), processes_(processes) {}
  bool ranks_are_processes() const override { return true; }
  int processes() const override { return processes_; }

 private:
  int processes_;
};

/// A backend that damages one published tensor of one rank.
class DamagedBackend : public TestBackend {
 public:
  DamagedBackend(int rank, std::string name)
      : TestBackend(std::make_shared<sim::CpuDevice>(), {.sums = false}),
        rank_(rank),
        name_(std::move(name)) {}
  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice& cpu, const sim::RankProgram& program) override {
    RanksHere here = TestBackend::run(world, cpu, program);
    for (sim::Published& published : here.ranks[static_cast<std::size_t>(rank_)].published) {
      if (published.name == name_)
        std::fill(published.values.begin(), published.values.end(), std::byte{0x3f});
    }
    return here;
  }

 private:
  int rank_;
  std::string name_;
};

/// Returns a line such as "rank 3: y" for each damage that is not found, on four ranks.
std::string unfound(const std::string& case_name) {
  const Case& the_case = *find_case(case_name);
  const Processes four(4);
  CaseSetting setting = drawn_for_backend(the_case, {sim::DType::f32}, 5, 1, four, 8);
  if (the_case.ranks() == Ranks::tensor_parallel) setting.group_size = setting.replicas = 2;
  const sim::WorldSpec world{.layout = sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron)};
  std::string all;
  for (const CaseOutput& output : the_case.outputs(setting)) {
    for (int rank = 0; rank < 4; ++rank) {
      DamagedBackend backend(rank, output.name);
      const auto rows = run_twins(backend, {twin_of("row", the_case, setting, world)},
                                  [](std::size_t, const std::string&) {});
      const bool has_elements = rows.front().tensors > 0 && output.part(rank, setting.group_size) >= 0;
      if (rows.front().is_equal() && has_elements) all += fmt::format("rank {}: {}\n", rank, output.name);
    }
  }
  return all;
}

// Where bounds are used, every rank is judged, not only the first that holds a part.
TEST(Backend, WithinBoundsEveryTensorOfEveryRankIsJudged) {
  std::vector<const char*> names = {"mlp", "tied_embedding"};
#ifndef SHARDPROOF_SANITIZED
  names.insert(names.end(), {"row_parallel_linear", "parallel_dropout", "all_to_all_hp2sp",
                             "distributed_optimizer", "gpt_training"});
#endif
  for (const char* name : names) EXPECT_EQ(unfound(name), "") << name;
}

/// Programs drawn for any order are exact in each order, so two orders of sums give the same bits. Other
/// programs do not.
TEST(Backend, DrawsForAnyOrderAreExactInEach) {
  const auto differs = [](bool any_order) {
    sim::CpuDevice device;
    sim::WorldSpec world = sim::world_of(5);
    const sim::RankProgram program = [&](sim::Rank& rank) {
      random_calls(rank, {.seed = 3, .steps = 120, .any_order = any_order});
    };
    const std::uint64_t first = sim::simulate(world, device, program).run_hash;
    world.reduction_order = {sim::ReductionOrderKind::shuffled, 7};
    return sim::simulate(world, device, program).run_hash != first;
  };
  EXPECT_FALSE(differs(true));
  EXPECT_TRUE(differs(false));
}

/// Returns the operations that no rank makes in some kind of group of at least two ranks.
std::string operations_left_out(const sim::Layout& layout, std::uint64_t seed) {
  sim::CpuDevice device;
  const RandomCalls calls{.seed = seed, .steps = steps_for_every_kind(layout)};
  const sim::RunReport report =
      sim::simulate({.layout = layout}, device, [&](sim::Rank& rank) { random_calls(rank, calls); });
  EXPECT_TRUE(report.ok()) << report.failure();
  std::set<std::pair<std::string, sim::Operation>> made;
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) made.insert({call.group->kind, call.operation});
  }
  std::vector<std::string> kinds = {"world"};
  for (const sim::GroupKind& kind : layout.kinds) {
    if (kind.members(0).size() > 1) kinds.push_back(kind.name());
  }
  std::string left_out;
  for (const std::string& kind : kinds) {
    for (int operation = 0; operation < kOperations; ++operation) {
      const auto wanted = static_cast<sim::Operation>(operation);
      const bool is_of_the_world = wanted == sim::Operation::new_group;
      if (!made.contains({is_of_the_world ? "world" : kind, wanted}))
        left_out += fmt::format("{} in {}, ", sim::name_of(wanted), kind);
    }
  }
  return left_out;
}

TEST(RandomCalls, RunEveryOperationInEveryKindOfGroup) {
  const sim::Layout layouts[] = {sim::make_layout({.world_size = 16,
                                                   .tensor_model_parallel_size = 2,
                                                   .pipeline_model_parallel_size = 2,
                                                   .context_parallel_size = 2,
                                                   .expert_model_parallel_size = 2},
                                                  sim::RuleBook::megatron),
                                 sim::make_layout({.world_size = 3}, sim::RuleBook::megatron)};
  for (const sim::Layout& layout : layouts) {
    for (std::uint64_t seed = 0; seed < 10; ++seed)
      EXPECT_EQ(operations_left_out(layout, seed), "") << "seed " << seed;
  }
}

RC_GTEST_PROP(Backend, ASettingHasARankForEachProcess, ()) {
  const int processes = *rc::gen::inRange(2, 17);
  const Processes backend(processes);
  const Case& the_case = **rc::gen::elementOf([] {
    std::vector<const Case*> all;
    for (const auto& one : all_cases()) all.push_back(one.get());
    return all;
  }());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto number = *rc::gen::inRange(0, 1000);
  const std::vector<sim::DType> dtypes = {sim::DType::f32, sim::DType::bf16};
  const CaseSetting setting = drawn_for_backend(the_case, dtypes, seed, number, backend, 8);
  RC_ASSERT(the_case.sizes(setting).world_size == processes);
  RC_ASSERT(setting == drawn_for_backend(the_case, dtypes, seed, number, backend, 8));
  for (const Dimension& dimension : the_case.dimensions()) {
    RC_ASSERT(setting[dimension.name] >= dimension.least && setting[dimension.name] <= dimension.most);
  }
}

TEST(Backend, SettingsDiffer) {
  const TestBackend backend(std::make_shared<sim::CpuDevice>(), {});
  std::set<std::string> settings;
  for (int number = 0; number < 50; ++number) {
    settings.insert(text_of(drawn_for_backend(*find_case("mlp"), {sim::DType::f32}, 1, number, backend, 8)));
  }
  EXPECT_EQ(settings.size(), 50U);
}

TEST(Backend, WhatIsNotJudgedThereIsRefused) {
  const auto refused = [](const std::string& line, const std::string& code) {
    const Ran ran = run_on(std::make_shared<sim::CpuDevice>(), line);
    EXPECT_EQ(ran.exit_code, 2) << line << "\n" << ran.out;
    EXPECT_TRUE(contains(ran.err, code)) << line << "\n" << ran.err;
  };
  refused("check --device cuda --dtype field", "nothing_to_check");
  refused("check --device cuda --dtype field,f32", "option_without_effect");
  refused("check --device cuda --message-bytes 8", "option_without_effect");
  refused("check --backend mpi --max-world 4", "option_without_effect");
  refused("replay --world-size 2 --device cuda --expect-finding deadlock", "option_without_effect");
}

// The claims of a scenario are proved before anything runs on the backend.
TEST(Backend, AScenarioThatDoesNotHoldDoesNotRun) {
  const auto ran = [](const std::string& line) { return run_on(std::make_shared<sim::CpuDevice>(), line); };
  EXPECT_EQ(
      ran("replay --world-size 4 --num-layers 3 --pipeline-model-parallel-size 2 --device cuda").exit_code,
      2);
  const Ran groups =
      ran("replay --world-size 4 --tensor-model-parallel-size 2 --expect-groups tp[0] --device cuda");
  EXPECT_EQ(groups.exit_code, 1) << groups.out;
  EXPECT_FALSE(contains(groups.out, "cuda collectives")) << groups.out;
  const Ran suspect =
      ran("replay --world-size 4 --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 "
          "--order ep-tp-cp-dp-pp --device cuda");
  EXPECT_EQ(suspect.exit_code, 5) << suspect.out;
  EXPECT_FALSE(contains(suspect.out, "cuda collectives")) << suspect.out;
  const Ran refused = ran("replay scenarios/refused/refused-uneven-one-stage.ini --device cuda");
  EXPECT_EQ(refused.exit_code, 0) << refused.out << refused.err;
  EXPECT_FALSE(contains(refused.out, "cuda collectives")) << refused.out;
}

TEST(Backend, AProgramWithoutGpusSaysSo) {
  std::ostringstream out, err;
  EXPECT_EQ(run_program({"replay", "--world-size", "1", "--device", "cuda"}, {out, err}), 4);
  EXPECT_TRUE(contains(err.str(), "backend_unavailable")) << err.str();
}

}  // namespace
