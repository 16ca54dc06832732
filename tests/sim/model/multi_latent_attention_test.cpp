// Proves that latent attention refuses sizes it cannot run. What it computes is held in verify/ against a
// reference that shares no code with it.

#include "sim/model/multi_latent_attention.h"

#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// Returns the code with which a layer on two tensor-parallel ranks is refused, or "none".
std::string refused_latent(const GptConfig& config, std::int64_t tokens = 6) {
  CpuDevice device;
  const WorldSpec spec{
      .layout = make_layout({.world_size = 2, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    MultiLatentAttention layer(rank, config, {.name = "self_attention"});
    layer.forward(filled(rank.device, DType::f32, {tokens, config.hidden_size}, 1));
  });
  return report.ok() ? "none" : report.findings.front().code;
}

GptConfig fitting_latent() {
  return {
      .hidden_size = 4,
      .num_attention_heads = 4,
      .seq_length = 3,
      .latent = LatentSizes{.kv_lora_rank = 2, .qk_head_dim = 3, .qk_pos_emb_head_dim = 2, .v_head_dim = 1}};
}

TEST(MultiLatentAttention, SizesThatDoNotFitAreRefused) {
  EXPECT_EQ(refused_latent(fitting_latent()), "none");
  GptConfig odd_heads = fitting_latent();
  odd_heads.num_attention_heads = 3;
  EXPECT_EQ(refused_latent(odd_heads), "attention_heads");
  GptConfig no_state = fitting_latent();
  no_state.latent->kv_lora_rank = 0;
  EXPECT_EQ(refused_latent(no_state), "attention_heads");
  GptConfig no_pairs = fitting_latent();
  no_pairs.latent->qk_pos_emb_head_dim = 3;
  EXPECT_EQ(refused_latent(no_pairs), "bad_rotary");
  EXPECT_EQ(refused_latent(fitting_latent(), 5), "shape_mismatch");
}

}  // namespace
