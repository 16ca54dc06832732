// Proves that attention refuses configurations it cannot run. What attention computes is held in verify/
// against a reference that shares no code with it.

#include "sim/model/self_attention.h"

#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// Returns the code with which an attention layer on two tensor-parallel ranks is refused, or "none".
std::string refused(const GptConfig& config) {
  CpuDevice device;
  const WorldSpec spec{
      .layout = make_layout({.world_size = 2, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    SelfAttention layer(rank, config, {.name = "self_attention"});
    layer.forward(filled(rank.device, DType::f32, {6, config.hidden_size}, 1));
  });
  return report.ok() ? "none" : report.findings.front().code;
}

GptConfig fitting() {
  return {
      .hidden_size = 4, .num_attention_heads = 4, .num_query_groups = 2, .kv_channels = 2, .seq_length = 3};
}

TEST(SelfAttention, HeadsThatDoNotDivideAreRefused) {
  EXPECT_EQ(refused(fitting()), "none");
  GptConfig odd_heads = fitting();
  odd_heads.num_attention_heads = 3;
  odd_heads.num_query_groups = 3;
  EXPECT_EQ(refused(odd_heads), "attention_heads");
  GptConfig groups = fitting();
  groups.num_query_groups = 3;
  EXPECT_EQ(refused(groups), "attention_heads");
  GptConfig none = fitting();
  none.num_query_groups = 0;
  EXPECT_EQ(refused(none), "attention_heads");
}

TEST(SelfAttention, QueriesKeysAndValuesMayHaveABiasAlone) {
  CpuDevice device;
  const WorldSpec spec{
      .layout = make_layout({.world_size = 2, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    GptConfig config = fitting();
    config.bias = false;
    config.add_qkv_bias = true;
    SelfAttention layer(rank, config, {.name = "self_attention"});
    std::string names;
    for (const Parameter* parameter : layer.parameters()) names += parameter->name + " ";
    EXPECT_EQ(names,
              "self_attention.linear_qkv.weight self_attention.linear_qkv.bias "
              "self_attention.linear_proj.weight ");
    EXPECT_EQ(layer.linear_qkv().bias().value.shape(), (Shape{8}));  // (4 + 2 * 2) heads of 2, over 2 ranks
  });
  EXPECT_TRUE(report.ok());
}

TEST(SelfAttention, TokensThatAreNoWholeSequencesAreRefused) {
  GptConfig longer = fitting();
  longer.seq_length = 4;
  EXPECT_EQ(refused(longer), "shape_mismatch");
}

TEST(SelfAttention, RotaryPositionsNeedAnEvenHead) {
  GptConfig odd = fitting();
  odd.kv_channels = 3;
  odd.rotary_base = 10000;
  EXPECT_EQ(refused(odd), "bad_rotary");
}

}  // namespace
