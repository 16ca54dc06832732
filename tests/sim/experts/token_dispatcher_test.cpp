// Proves in the field that the three dispatchers compute what one device computes, on every grid of experts
// and for every routing: ranks without tokens, all tokens on one expert or on all experts, and experts that
// are padded to a capacity. Shows what the experts and the dispatchers refuse.

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/cpu/cpu_device.h"
#include "sim/experts/grouped_mlp.h"
#include "sim/experts/token_dropping.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;

/// Which experts the tokens of a trial go to.
enum class Routes : std::uint8_t { drawn, all_to_the_first, all_to_the_last, to_all, to_none };

struct Trial {
  int tp = 1, ep = 1, etp = 1, edp = 1;
  std::int64_t local_experts = 1;
  std::vector<std::int64_t> tokens;  // by rank
  std::uint64_t seed = 0;
  Routes routes = Routes::drawn;
  std::uint32_t chosen_of_four = 2;  // how many of four experts are chosen for a token, if they are drawn
  bool pads_to_capacity = false;
};

constexpr std::int64_t kHidden = 3, kFfn = 4, kMostTokens = 4;

constexpr TokenDispatcherType kTypes[] = {TokenDispatcherType::allgather, TokenDispatcherType::alltoall,
                                          TokenDispatcherType::flex};

int world_of(const Trial& t) { return t.ep * t.etp * t.edp; }

bool are_equal(const std::vector<std::int64_t>& numbers) {
  return std::set(numbers.begin(), numbers.end()).size() == 1;
}

Trial drawn_trial() {
  Trial trial;
  trial.tp = *rc::gen::inRange(1, 3);
  trial.ep = *rc::gen::inRange(1, 4);
  trial.etp = *rc::gen::inRange(1, 3);
  trial.edp = trial.etp * trial.ep % trial.tp == 0 ? *rc::gen::inRange(1, 3) : trial.tp;
  trial.local_experts = *rc::gen::inRange(1, 4);
  const auto tokens = rc::gen::inRange<std::int64_t>(0, kMostTokens + 1);
  const auto ranks = static_cast<std::size_t>(world_of(trial));
  trial.pads_to_capacity = *rc::gen::arbitrary<bool>();
  const bool differ = !trial.pads_to_capacity && *rc::gen::arbitrary<bool>();
  trial.tokens = differ ? *rc::gen::container<std::vector<std::int64_t>>(ranks, tokens)
                        : std::vector<std::int64_t>(ranks, *tokens);
  trial.routes = *rc::gen::element(Routes::drawn, Routes::drawn, Routes::all_to_the_first,
                                   Routes::all_to_the_last, Routes::to_all, Routes::to_none);
  trial.seed = *rc::gen::arbitrary<std::uint64_t>();
  trial.chosen_of_four = *rc::gen::inRange(0U, 5U);
  return trial;
}

WorldSpec world(const Trial& t) {
  return {.layout = make_layout({.world_size = world_of(t),
                                 .tensor_model_parallel_size = t.tp,
                                 .expert_model_parallel_size = t.ep,
                                 .expert_tensor_parallel_size = t.etp},
                                RuleBook::megatron),
          .seed = t.seed};
}

/// The experts of the tokens of one rank: the same for every dispatcher.
RoutingMap map_of(const Trial& t, int rank) {
  const std::int64_t experts = t.ep * t.local_experts;
  const KeyedRandom random = KeyedRandom(t.seed).named("map " + std::to_string(rank));
  RoutingMap map(t.tokens[static_cast<std::size_t>(rank)], experts);
  for (std::int64_t token = 0; token < map.tokens(); ++token) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto i = static_cast<std::uint64_t>(token * experts + e);
      const bool chosen[] = {random.below(i, 4) < t.chosen_of_four, e == 0, e + 1 == experts, true, false};
      map.set(token, e, chosen[static_cast<std::size_t>(t.routes)]);
    }
  }
  return map;
}

GroupedMlpConfig experts_config() {
  return {.name = "experts", .dtype = DType::field, .hidden_size = kHidden, .ffn_hidden_size = kFfn};
}

/// Publishes what the experts make of this rank's tokens, and the gradients.
void run(Rank& rank, const Trial& t, TokenDispatcherType type) {
  RoutingMap map = map_of(t, rank.id);
  const ExpertGrid grid = expert_grid(rank, map.experts());
  GroupedMlp experts(rank, grid, experts_config());
  const auto own = [&](const char* name, std::int64_t columns) {
    return keyed(rank.device, DType::field, {map.tokens(), columns}, rank.random.named(name),
                 rank.id * kMostTokens * columns);
  };
  Tensor probs = own("probs", map.experts());
  std::optional<std::int64_t> capacity;
  if (t.pads_to_capacity) {
    const auto kept = drop_tokens({probs, map}, 1, {.capacity_factor = 1, .pad_to_capacity = true});
    map = kept.routing.map;
    probs = kept.routing.probs;
    capacity = expert_capacity(map.tokens(), 1, map.experts(), 1);
  }
  const auto dispatcher = make_token_dispatcher(type, grid, {map, capacity});
  const ExpertRows rows = dispatcher->dispatch(own("hidden", kHidden), probs);
  const auto forward = experts.forward(rows);
  rank.publish("output", dispatcher->combine(forward.output));
  const auto gradients = experts.backward(forward.saved, dispatcher->combine_backward(own("grad", kHidden)));
  const auto of_tokens = dispatcher->dispatch_backward(gradients.rows, gradients.probs);
  rank.publish("grad_hidden", of_tokens.hidden);
  rank.publish("grad_probs", of_tokens.probs);
  for (const Parameter* parameter : experts.parameters()) rank.publish(parameter->name, parameter->main_grad);
}

using Values = std::vector<std::map<std::string, std::vector<Field>>>;  // by rank

Values published(const WorldSpec& spec, std::uint64_t seed, const RankProgram& program) {
  CpuDevice device(seed);
  const RunReport report = simulate(spec, device, program);
  if (!report.ok()) RC_FAIL(report.failure());
  Values all;
  for (const RankReport& rank : report.ranks) {
    all.emplace_back();
    for (const Published& tensor : rank.published) all.back()[tensor.name] = test::values<Field>(&tensor);
  }
  return all;
}

/// The same tokens on one rank, whose experts are those of all ranks.
Values on_one_rank(const Trial& t) {
  Trial one = t;
  one.tp = one.ep = one.etp = one.edp = 1;
  one.local_experts = t.ep * t.local_experts;
  Values all;
  for (int of = 0; of < world_of(t); ++of) {
    const Values values = published(world(one), t.seed, [&](Rank& rank) {
      Rank as{of, rank.layout, rank.device, rank.groups, rank.random, rank.record};
      run(as, one, TokenDispatcherType::alltoall);
    });
    all.push_back(values.front());
  }
  return all;
}

/// The sum over all ranks of the gradient of linear_fc1 of each expert, whose rows are cut over etp.
std::map<std::string, std::vector<Field>> fc1_gradients(const Values& values, int etp) {
  std::map<std::string, std::vector<Field>> sums;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    for (const auto& [name, gradient] : values[rank]) {
      if (name.find("linear_fc1.weight") == std::string::npos) continue;
      std::vector<Field>& sum = sums[name];
      sum.resize(gradient.size() * static_cast<std::size_t>(etp));
      const std::size_t begin = rank % static_cast<std::size_t>(etp) * gradient.size();
      for (std::size_t i = 0; i < gradient.size(); ++i) sum[begin + i] = sum[begin + i] + gradient[i];
    }
  }
  return sums;
}

/// Returns the code with which the experts of a layout are refused, or "none".
std::string refused(const ParallelSizes& sizes, std::int64_t experts, bool bias, std::int64_t ffn = kFfn) {
  CpuDevice device;
  const RunReport report =
      simulate({.layout = make_layout(sizes, RuleBook::megatron)}, device, [&](Rank& rank) {
        GroupedMlpConfig config = experts_config();
        config.bias = bias;
        config.ffn_hidden_size = ffn;
        const ExpertGrid grid = expert_grid(rank, experts);
        GroupedMlp layer(rank, grid, config);
      });
  return report.ok() ? "none" : report.findings.front().code;
}

TEST(ExpertGrid, RefusesWhatDoesNotFit) {
  const ParallelSizes grid{.world_size = 4,
                           .tensor_model_parallel_size = 2,
                           .expert_model_parallel_size = 2,
                           .expert_tensor_parallel_size = 2};
  EXPECT_EQ(refused(grid, 4, false), "none");
  EXPECT_EQ(refused(grid, 3, false), "experts_ep");
  EXPECT_EQ(refused(grid, 0, false), "experts_ep");
  EXPECT_EQ(refused(grid, -2, false), "experts_ep");
  EXPECT_EQ(refused(grid, 4, true), "moe_bias_etp");
  EXPECT_EQ(refused(grid, 4, true, 0), "moe_sizes");
  EXPECT_EQ(refused(grid, 4, true, 3), "moe_ffn_etp_div");
  ParallelSizes other = grid;
  other.order = "ep-tp-cp-dp-pp";
  EXPECT_EQ(refused(other, 4, false), "expert_group_order");
}

TEST(TokenDispatchers, RefuseOtherTokensThanTheMapHas) {
  CpuDevice device;
  const RunReport report = simulate(sim::world_of(1), device, [](Rank& rank) {
    const ExpertGrid grid = expert_grid(rank, 3);
    const auto zeros = [&](const Shape& shape) { return filled(rank.device, DType::f32, shape, 0); };
    for (const auto type : kTypes) {
      EXPECT_EQ(test::refusal_code([&] { make_token_dispatcher(type, grid, {RoutingMap(2, 4)}); }),
                "dispatch_map");
      const auto code = [&](const Shape& hidden, const Shape& probs) {
        const auto dispatcher = make_token_dispatcher(type, grid, {RoutingMap(2, 3)});
        return test::refusal_code([&] { dispatcher->dispatch(zeros(hidden), zeros(probs)); });
      };
      EXPECT_EQ(code({2, kHidden}, {2, 3}), "none");
      EXPECT_EQ(code({3, kHidden}, {2, 3}), "shape_mismatch");
      EXPECT_EQ(code({2, kHidden}, {2, 4}), "shape_mismatch");
      EXPECT_EQ(code({2, kHidden}, {3, 3}), "shape_mismatch");
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

RC_GTEST_PROP(TokenDispatchers, ComputeWhatOneRankComputes, ()) {
  const Trial t = drawn_trial();
  RC_PRE(world_of(t) % t.tp == 0);
  const Values serial = on_one_rank(t);
  for (const auto type : kTypes) {
    if (type == TokenDispatcherType::allgather && !are_equal(t.tokens)) continue;  // it gathers equal blocks
    const Values values = published(world(t), t.seed, [&](Rank& rank) { run(rank, t, type); });
    for (std::size_t rank = 0; rank < values.size(); ++rank)
      for (const char* name : {"output", "grad_hidden", "grad_probs"})
        RC_ASSERT(values[rank].at(name) == serial[rank].at(name));
    RC_ASSERT(fc1_gradients(values, t.etp) == fc1_gradients(serial, 1));
  }
}

}  // namespace
