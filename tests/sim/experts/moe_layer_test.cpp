// Shows that a layer of experts tells all that is wrong with it at once, with the numbers of each rule.

#include "sim/experts/moe_layer.h"

#include <gtest/gtest.h>

#include "sim/base/refusals.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

TEST(MoeLayer, TellsAllThatIsWrongAtOnce) {
  CpuDevice device;
  const WorldSpec spec{.layout = make_layout({.world_size = 2, .tensor_model_parallel_size = 2},
                                             RuleBook::megatron)};  // etp is tp
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    try {
      MoeLayer(rank, {.router = {.name = "mlp.router",
                                 .hidden_size = 2,
                                 .num_experts = 4,
                                 .routing = {.topk = 5, .num_groups = 2, .group_topk = 1}},
                      .experts = {.name = "mlp.experts", .hidden_size = 2, .ffn_hidden_size = 3}});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      std::vector<std::string> codes = {error.refusal().code};
      for (const Refusal& refusal : further_refusals(error)) codes.push_back(refusal.code);
      EXPECT_EQ(codes, (std::vector<std::string>{"moe_tp_needs_sp", "topk_routing", "topk_routing",
                                                 "moe_ffn_etp_div"}));
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

}  // namespace
