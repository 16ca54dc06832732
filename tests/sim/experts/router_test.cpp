// Proves in the field that a router whose tokens are split over ranks gives what one rank gives:
// probabilities, gradients of tokens and weight, losses and expert biases. Shows what a router refuses.

#include "sim/experts/router.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/cpu/cpu_device.h"
#include "sim/parallel/mappings.h"
#include "sim/parallel/sequence_parallel_grads.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;
using Values = std::map<std::string, std::vector<Field>>;

constexpr std::int64_t kPositions = 12, kHidden = 3, kExperts = 4;  // positions are divisible by 2, 3 and 4

/// Returns what rank 0 publishes. Each program gathers its own shards, so the tensors are whole.
Values published_by(int tp, std::uint64_t seed, const RankProgram& program) {
  CpuDevice device(seed);
  WorldSpec spec{.layout =
                     make_layout({.world_size = tp, .tensor_model_parallel_size = tp}, RuleBook::megatron)};
  spec.seed = seed;
  const RunReport report = simulate(spec, device, program);
  if (!report.ok()) RC_FAIL(report.failure());
  Values values;
  for (const Published& tensor : report.ranks[0].published)
    values[tensor.name] = test::values<Field>(&tensor);
  return values;
}

PaddingMask own_padding(const PaddingMask& padding, const Communicator& tp) {
  const auto count = static_cast<std::ptrdiff_t>(padding.size()) / tp.size();
  return {padding.begin() + tp.rank() * count, padding.begin() + (tp.rank() + 1) * count};
}

RC_GTEST_PROP(TopKRouter, ShardedEqualsSerial, (bool is_softmax, bool has_padding)) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::int64_t batch = *rc::gen::inRange(1, 4);
  TopKRouterConfig config{
      .name = "router",
      .dtype = DType::field,
      .hidden_size = kHidden,
      .num_experts = kExperts,
      .routing = {.topk = *rc::gen::inRange(1, 4),
                  .score_function = is_softmax ? ScoreFunction::softmax : ScoreFunction::sigmoid,
                  .pre_softmax = *rc::gen::arbitrary<bool>()},
      .expert_bias = !is_softmax,
      .aux_losses = {{AuxLossKind::aux_loss, {1, 100}},
                     {AuxLossKind::seq_aux_loss, {3, 1000}},
                     {AuxLossKind::global_aux_loss, {2, 7}}},
      .sequence_parallel = true};
  // The z-loss is a mean of the means of ranks, so padding makes it differ between layouts.
  if (!has_padding) config.z_loss_coefficient = Ratio{1, 1000};
  PaddingMask padding;
  if (has_padding) {
    padding = *rc::gen::container<PaddingMask>(static_cast<std::size_t>(kPositions * batch),
                                               rc::gen::element<std::uint8_t>(0, 1));
    padding[0] = 0;
  }
  const RankProgram program = [&](Rank& rank) {
    Communicator& tp = rank.groups.get("tp");
    TopKRouter router(rank, config);
    const Shape tokens = {kPositions * batch, kHidden}, probs = {kPositions * batch, kExperts};
    std::vector<Tensor> losses;
    for (const char* microbatch : {"first", "second"}) {
      const KeyedRandom random = rank.random.named(microbatch);
      const Tensor hidden = keyed(rank.device, DType::field, tokens, random.named("hidden"));
      const Tensor grad = keyed(rank.device, DType::field, probs, random.named("grad"));
      const auto forward = router.forward(own_rows(hidden, tp), {batch, own_padding(padding, tp)});
      const Tensor grad_hidden = router.backward(forward.saved, own_rows(grad, tp), {5, 3});
      rank.publish(std::string(microbatch) + " probs",
                   gathered_rows(forward.routing.probs, tp, "test.probs"));
      rank.publish(std::string(microbatch) + " grad", gathered_rows(grad_hidden, tp, "test.grad"));
      for (const AttachedLoss& loss : forward.losses)
        rank.publish(microbatch + loss.name, all_reduced(loss.attached, tp, "test.loss"));
    }
    all_reduce_sequence_parallel_grads(rank, router.parameters());
    rank.publish("weight", router.weight().main_grad);
    if (is_softmax) return;
    TopKRouter* const routers[] = {&router};
    update_expert_bias(rank, routers, {1, 1000});
    rank.publish("bias", router.expert_bias());
  };
  const Values serial = published_by(1, seed, program);
  RC_ASSERT(serial.size() >= 11U);
  RC_ASSERT(published_by(*rc::gen::inRange(2, 5), seed, program) == serial);
}

std::string code_of(const TopKRouterConfig& config) {
  CpuDevice device(0);
  std::string code;
  const RunReport report = simulate(
      world_of(1), device, [&](Rank& rank) { code = refusal_code([&] { TopKRouter(rank, config); }); });
  EXPECT_TRUE(report.ok()) << report.failure();
  return code;
}

TEST(TopKRouter, RefusesWhatMegatronWouldRoundOrIgnore) {
  const TopKRouterConfig router{.name = "router", .hidden_size = 2, .num_experts = 6};
  EXPECT_EQ(code_of(router), "none");
  const auto code_with = [&](const auto& change) {
    TopKRouterConfig changed = router;
    change(changed);
    return code_of(changed);
  };
  EXPECT_EQ(code_with([](auto& c) { c.num_experts = 0; }), "router_config");
  EXPECT_EQ(code_with([](auto& c) { c.expert_bias = true; }), "router_config");
  EXPECT_EQ(code_with([](auto& c) { c.router_dtype = DType::field; }), "router_config");
  EXPECT_EQ(code_with([](auto& c) { c.routing = {.topk = 3, .num_groups = 3, .group_topk = 2}; }),
            "router_config");
  EXPECT_EQ(code_with([](auto& c) { c.routing = {.topk = 1, .num_groups = 3, .group_topk = 2}; }),
            "router_config");
  EXPECT_EQ(code_with([](auto& c) { c.routing.topk = 7; }), "topk_routing");
}

TEST(TopKRouter, TellsAllThatIsWrongAtOnce) {
  CpuDevice device(0);
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    try {
      TopKRouter(rank, {.name = "router",
                        .router_dtype = DType::field,
                        .hidden_size = 2,
                        .num_experts = 4,
                        .routing = {.topk = 5, .num_groups = 3, .group_topk = 2},
                        .expert_bias = true});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.refusal().option, "router topk");
      EXPECT_EQ(further_refusals(error).size(), 4U);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

/// bf16 with all that a router has, and microbatches of no token.
TEST(TopKRouter, ComputesInItsOwnDtype) {
  CpuDevice device(0);
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
      for (const bool is_softmax : {true, false}) {
        TopKRouter router(rank, {.name = "router",
                                 .dtype = DType::bf16,
                                 .router_dtype = dtype,
                                 .hidden_size = 2,
                                 .num_experts = 3,
                                 .routing = {.topk = 2,
                                             .score_function = is_softmax ? ScoreFunction::softmax
                                                                          : ScoreFunction::sigmoid},
                                 .expert_bias = !is_softmax,
                                 .aux_losses = {{AuxLossKind::aux_loss, {1, 100}}},
                                 .z_loss_coefficient = Ratio{1, 1000},
                                 .token_dropping = TokenDroppingConfig{}});
        for (const std::int64_t tokens : {4, 0}) {
          const Tensor hidden = keyed(rank.device, DType::bf16, {tokens, 2}, rank.random.named("hidden"));
          const auto forward = router.forward(hidden, {.counts = tokens > 0});
          EXPECT_EQ(forward.routing.probs.dtype(), dtype);
          const Tensor grad = filled(rank.device, dtype, {tokens, 3}, 1);
          const Tensor grad_hidden = router.backward(forward.saved, grad);
          EXPECT_EQ(grad_hidden.dtype(), DType::bf16);
          EXPECT_EQ(grad_hidden.shape(), hidden.shape());
          for (const AttachedLoss& loss : forward.losses)
            EXPECT_EQ(loss.attached.dtype(), dtype == DType::bf16 ? DType::f32 : dtype);
        }
        EXPECT_EQ(router.weight().main_grad.dtype(), DType::f32);
      }
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

TEST(TopKRouter, HasNeitherLossesNorCountsOutsideOfTraining) {
  CpuDevice device(0);
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    TopKRouter router(rank, {.name = "router",
                             .dtype = DType::f64,
                             .hidden_size = 2,
                             .num_experts = 3,
                             .routing = {.score_function = ScoreFunction::sigmoid},
                             .expert_bias = true,
                             .aux_losses = {{AuxLossKind::global_aux_loss, {1, 100}}},
                             .z_loss_coefficient = Ratio{1, 1000}});
    const Tensor hidden = keyed(rank.device, DType::f64, {4, 2}, rank.random.named("hidden"));
    const auto tokens = [&] {
      const auto counts = test::values<std::int32_t>(router.local_tokens_per_expert());
      return counts[0] + counts[1] + counts[2];
    };
    EXPECT_EQ(router.forward(hidden, {.counts = false}).losses.size(), 0U);
    EXPECT_EQ(tokens(), 0);
    EXPECT_EQ(router.global_tokens_per_expert().microbatches, 0);
    EXPECT_EQ(router.forward(hidden).losses.size(), 2U);
    EXPECT_EQ(tokens(), 4);
    EXPECT_EQ(router.global_tokens_per_expert().microbatches, 1);
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

/// Of two ranks with three and one tokens that are no padding, a loss per token has the factor of this rank's
/// tokens times two, or as Megatron counts, of both ranks' tokens times two.
TEST(AuxLosses, CountTheTokensOfThisRankIfAsked) {
  CpuDevice device(0);
  WorldSpec spec{.layout =
                     make_layout({.world_size = 2, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    const AuxLossGroups groups{&rank.groups.get("tp-cp"), &rank.groups.get("tp-dp-cp")};
    const Tensor logits = keyed(rank.device, DType::field, {4, 3}, rank.random.named("logits"));
    const PaddingMask padding = rank.id == 0 ? PaddingMask{0, 1, 0, 0} : PaddingMask{1, 1, 0, 1};
    for (const bool in_place : {true, false}) {
      GlobalTokensPerExpert none;
      const auto forward = aux_losses({logits, 2, padding},
                                      {.losses = {{AuxLossKind::seq_aux_loss, {1, 5}}},
                                       .topk = 2,
                                       .per_token_loss = true,
                                       .counts_reduced_in_place = in_place},
                                      groups, none);
      const std::int64_t tokens = in_place ? 4 : rank.id == 0 ? 3 : 1;
      EXPECT_EQ(test::values<Field>(forward.losses[0].attached),
                test::values<Field>(scale(forward.losses[0].logged, {2 * tokens, 5})));
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

TEST(AuxLosses, RefuseTokensThatAreAllPaddingAndAMaskOfAnotherLength) {
  CpuDevice device(0);
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    const AuxLossGroups groups{&rank.groups.get("tp-cp"), &rank.groups.get("tp-dp-cp")};
    const Tensor logits = filled(rank.device, DType::f64, {2, 3}, 0);
    GlobalTokensPerExpert none;
    const auto code = [&](const AuxLossInput& input, const AuxLossConfig& config) {
      return refusal_code([&] { aux_losses(input, config, groups, none); });
    };
    const AuxLossConfig config{.losses = {{AuxLossKind::aux_loss, {1, 2}}}};
    EXPECT_EQ(code({logits, 1, {0, 1}}, config), "none");
    EXPECT_EQ(code({logits, 1, {1, 1}}, config), "no_valid_tokens");
    EXPECT_EQ(code({filled(rank.device, DType::f64, {0, 3}, 0), 1, {}}, config), "no_valid_tokens");
    EXPECT_EQ(code({logits, 1, {1}}, config), "aux_loss");
    EXPECT_EQ(code({logits, 3, {}}, config), "aux_loss");
    EXPECT_EQ(code({logits, 1, {}}, {.losses = {config.losses[0], config.losses[0]}}), "aux_loss");
    EXPECT_EQ(refusal_code([&] { z_loss(logits, {1}, {}, groups); }), "aux_loss");
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

}  // namespace
