// Holds the auxiliary losses, the gradients of a whole router and the update of expert biases against what
// Megatron's own TopKRouter computes. Each line is run on a virtual world of its ranks, in which the groups
// of tp_cp neighbours are tensor-parallel ranks, and again with context-parallel ones.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>

#include "sim/cpu/cpu_device.h"
#include "sim/experts/router.h"
#include "sim/world/simulate.h"
#include "tests/megatron/lines.h"
#include "tests/megatron/moe_config.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::are_near;
using test::Json;

AuxLossKind kind_of(const std::string& type) {
  static const std::map<std::string, AuxLossKind> kinds = {{"aux_loss", AuxLossKind::aux_loss},
                                                           {"seq_aux_loss", AuxLossKind::seq_aux_loss},
                                                           {"global_aux_loss", AuxLossKind::global_aux_loss}};
  if (!kinds.contains(type)) ADD_FAILURE() << "no auxiliary loss " << type;
  return kinds.at(type);
}

std::vector<AuxLoss> losses_of(const Json& config) {
  if (config["types"] == "none") return {};
  if (config["types"].is_string())
    return {{kind_of(config["types"]), test::ratio_of(config["coeff"].get<double>())}};
  std::vector<AuxLoss> losses;
  for (std::size_t i = 0; i < config["types"].size(); ++i)
    losses.push_back({kind_of(config["types"][i]), test::ratio_of(config["coeff"][i].get<double>())});
  return losses;
}

TopKRouterConfig router_of(const Json& config) {
  TopKRouterConfig router{.name = "router",
                          .dtype = DType::f64,
                          .hidden_size = config["experts"],
                          .num_experts = config["experts"],
                          .routing = test::routing_of(config),
                          .expert_bias = config["expert_bias"],
                          .aux_losses = losses_of(config),
                          .per_token_loss = config["per_token_loss"]};
  if (!config["z_coeff"].is_null()) router.z_loss_coefficient = test::ratio_of(config["z_coeff"]);
  if (!config["capacity_factor"].is_null())
    router.token_dropping = {.capacity_factor = config["capacity_factor"]};
  return router;
}

PaddingMask padding_of(const Json& input) {
  PaddingMask padding;
  if (!input.contains("padding")) return padding;
  for (const Json& byte : input["padding"]) padding.push_back(static_cast<std::uint8_t>(byte.get<int>()));
  return padding;
}

/// The name of a loss, and of the group over which it is logged.
std::string logged_name(const std::string& name, int group_size) {
  return fmt::format("{} over {}", name, group_size);
}
std::string logged_name(const Json& logged) {
  const Json& size =
      logged["reduce_group_size"].is_null() ? logged["avg_group_size"] : logged["reduce_group_size"];
  return logged_name(logged["name"], size);
}

/// A router whose weight is the identity, so that its logits are the hidden states, and the gradient of these
/// is the gradient of the logits: both products are exact.
void run_router(const Json& line, Rank& rank) {
  const Json& config = line["config"];
  TopKRouter router(rank, router_of(config));
  const std::int64_t experts = config["experts"];
  std::vector<double> identity(static_cast<std::size_t>(experts * experts));
  for (std::int64_t e = 0; e < experts; ++e) identity[static_cast<std::size_t>(e * experts + e)] = 1;
  copy(test::tensor_of(rank.device, DType::f64, {experts, experts}, identity), router.weight().value);
  if (config["expert_bias"].get<bool>())
    copy(test::vector_of(rank.device, line["expert_bias_in"]), router.expert_bias());

  const Json& microbatches = line["ranks_in"][static_cast<std::size_t>(rank.id)];
  for (std::size_t j = 0; j < microbatches.size(); ++j) {
    const Json& input = microbatches[j];
    const auto forward = router.forward(test::matrix_of(rank.device, input["logits"]),
                                        {.batch_size = config["batch"], .padding = padding_of(input)});
    const Tensor grad = router.backward(forward.saved, test::matrix_of(rank.device, input["cotangent"]),
                                        test::ratio_of(config["scale"]));
    rank.publish(fmt::format("{} probs", j), forward.routing.probs);
    rank.publish(fmt::format("{} map", j), forward.routing.map.tensor(rank.device));
    rank.publish(fmt::format("{} grad", j), grad);
    for (std::size_t i = 0; i < forward.losses.size(); ++i) {
      const AttachedLoss& loss = forward.losses[i];
      rank.publish(fmt::format("{} attached {}", j, i), loss.attached);
      rank.publish(fmt::format("{} {}", j, logged_name(loss.name, loss.logging_group->size())), loss.logged);
    }
  }
  if (!router.global_tokens_per_expert().tokens.is_none())
    rank.publish("global tokens", router.global_tokens_per_expert().tokens);
  if (!config["expert_bias"].get<bool>()) return;
  rank.publish("local tokens", router.local_tokens_per_expert());
  TopKRouter* const routers[] = {&router};
  update_expert_bias(rank, routers, test::ratio_of(config["bias_rate"]));
  rank.publish("updated bias", router.expert_bias());
  rank.publish("no tokens", router.local_tokens_per_expert());
}

std::vector<double> whole_numbers(const Published* published) {
  const std::vector<std::int32_t> numbers = test::values<std::int32_t>(published);
  return {numbers.begin(), numbers.end()};
}

void expect_microbatch(const RunReport& report, int rank, std::size_t j, const Json& wanted) {
  const auto find = [&](const std::string& name) { return report.find(rank, fmt::format("{} {}", j, name)); };
  const auto near = [&](const std::string& name, const Json& numbers) {
    EXPECT_TRUE(are_near(test::values<double>(find(name)), test::numbers_of(numbers))) << name;
  };
  EXPECT_EQ(whole_numbers(find("map")), test::numbers_of(wanted["map"]));
  near("probs", wanted["probs"]);
  near("grad", wanted["grad_logits"]);
  const Json& attached = wanted["attached_losses"];
  for (std::size_t i = 0; i < attached.size(); ++i) near(fmt::format("attached {}", i), attached[i]);
  EXPECT_EQ(find(fmt::format("attached {}", attached.size())), nullptr);
  EXPECT_EQ(wanted["logged"].size(), attached.size());
  for (const Json& logged : wanted["logged"]) near(logged_name(logged), logged["value"]);
}

void expect_rank(const RunReport& report, const Json& wanted) {
  const int rank = wanted["rank"];
  SCOPED_TRACE(fmt::format("rank {}", rank));
  for (std::size_t j = 0; j < wanted["microbatches"].size(); ++j) {
    SCOPED_TRACE(fmt::format("microbatch {}", j));
    expect_microbatch(report, rank, j, wanted["microbatches"][j]);
  }
  if (wanted.contains("global_tokens_accumulated")) {
    EXPECT_EQ(whole_numbers(report.find(rank, "global tokens")),
              test::numbers_of(wanted["global_tokens_accumulated"]));
  }
  if (!wanted.contains("updated_expert_bias")) return;
  const std::vector<double> tokens = test::numbers_of(wanted["local_tokens_per_expert"]);
  EXPECT_EQ(whole_numbers(report.find(rank, "local tokens")), tokens);
  EXPECT_EQ(whole_numbers(report.find(rank, "no tokens")), std::vector<double>(tokens.size()));
  EXPECT_TRUE(are_near(test::values<double>(report.find(rank, "updated bias")),
                       test::numbers_of(wanted["updated_expert_bias"])));
}

void expect_every_line(bool is_context_parallel) {
  for (const Json& line : test::lines_of("moe/aux_loss.jsonl")) {
    const Json& config = line["config"];
    SCOPED_TRACE("aux_loss line " + line["id"].dump() + " " + config.dump());
    ParallelSizes sizes{.world_size = config["ranks"]};
    (is_context_parallel ? sizes.context_parallel_size : sizes.tensor_model_parallel_size) = config["tp_cp"];
    CpuDevice device(0);
    const RunReport report = simulate({.layout = make_layout(sizes, RuleBook::megatron)}, device,
                                      [&](Rank& rank) { run_router(line, rank); });
    ASSERT_TRUE(report.ok()) << report.failure();
    for (const Json& wanted : line["expected"]) expect_rank(report, wanted);
  }
}

TEST(MegatronMoeAuxLoss, TensorParallelRanksHaveMegatronsLosses) { expect_every_line(false); }
TEST(MegatronMoeAuxLoss, ContextParallelRanksHaveMegatronsLosses) { expect_every_line(true); }

}  // namespace
