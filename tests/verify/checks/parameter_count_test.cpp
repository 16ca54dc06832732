// Proves that the number of parameters equals the closed form of the GPT family, and the published one
// of Llama 3 405B.

#include "verify/checks/parameter_count.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/base/error.h"

namespace {

// Narayanan et al. 2021: P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), without the final norm.
RC_GTEST_PROP(ParameterCount, IsTheClosedFormOfTheGptFamily, ()) {
  const std::int64_t heads = *rc::gen::inRange(1, 65);
  const std::int64_t h = heads * *rc::gen::inRange(1, 257);
  const std::int64_t l = *rc::gen::inRange(1, 129);
  const std::int64_t vocab = *rc::gen::inRange(1, 100000);
  const std::int64_t s = *rc::gen::inRange(1, 10000);
  const sim::GptConfig shape{.num_layers = l,
                             .hidden_size = h,
                             .ffn_hidden_size = 4 * h,
                             .num_attention_heads = heads,
                             .num_query_groups = heads,
                             .seq_length = s,
                             .vocab_size = vocab};
  RC_ASSERT(verify::parameter_count(shape) - 2 * h == 12 * l * h * h + 13 * l * h + (vocab + s) * h);
}

TEST(ParameterCount, Llama3405B) {
  const sim::GptConfig shape{.num_layers = 126,
                             .hidden_size = 16384,
                             .ffn_hidden_size = 53248,
                             .num_attention_heads = 128,
                             .num_query_groups = 8,
                             .seq_length = 8192,
                             .vocab_size = 128000,
                             .rotary_base = 10'000,
                             .normalization = sim::Norm::rms_norm,
                             .gated = true,
                             .bias = false,
                             .untie_embeddings_and_output_weights = true};
  // 126 (2 * 16384^2 + 2 * 16384 * 1024 + 3 * 16384 * 53248 + 2 * 16384) + 2 * 128000 * 16384 + 16384
  EXPECT_EQ(verify::parameter_count(shape), 405'845'000'192);
}

// Their model cards give these counts (Qwen3 without the norms of queries and keys, 2 * 128 a layer).
TEST(ParameterCount, HeadsOfASizeOfTheirOwn) {
  sim::GptConfig shape{.num_layers = 28,
                       .hidden_size = 1024,
                       .ffn_hidden_size = 3072,
                       .num_attention_heads = 16,
                       .num_query_groups = 8,
                       .kv_channels = 128,
                       .seq_length = 4096,
                       .vocab_size = 151936,
                       .rotary_base = 10'000,
                       .normalization = sim::Norm::rms_norm,
                       .gated = true,
                       .bias = false};
  EXPECT_EQ(verify::parameter_count(shape), 596'049'920 - 28 * 2 * 128);
  shape.num_attention_heads = shape.num_query_groups = 24;  // it does not divide H
  EXPECT_NO_THROW(verify::parameter_count(shape));
  shape.kv_channels = 1 << 21;
  EXPECT_THROW(verify::parameter_count(shape), sim::Error);
}

/// A model whose layers all have experts, with the sizes that its configuration gives.
sim::GptConfig of_experts(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t groups,
                          std::int64_t channels, std::int64_t vocabulary, const sim::GptExperts& experts) {
  return {.num_layers = layers,
          .hidden_size = hidden,
          .ffn_hidden_size = experts.moe_ffn_hidden_size,
          .num_attention_heads = heads,
          .num_query_groups = groups,
          .kv_channels = channels,
          .seq_length = 4096,
          .vocab_size = vocabulary,
          .rotary_base = 10'000,
          .normalization = sim::Norm::rms_norm,
          .gated = true,
          .bias = false,
          .untie_embeddings_and_output_weights = true,
          .experts = experts};
}

// The counts of all elements of the published weights. Those of Qwen3 have two norms of 128 in each layer,
// for queries and keys; those of gpt-oss have 64 sinks of attention in each layer.
TEST(ParameterCount, PublishedModelsWithExperts) {
  const auto mixtral_7b = of_experts(
      32, 4096, 32, 8, 128, 32000, {.num_experts = 8, .moe_ffn_hidden_size = 14336, .routing = {.topk = 2}});
  EXPECT_EQ(verify::parameter_count(mixtral_7b), 46'702'792'704);
  EXPECT_EQ(verify::active_parameter_count(mixtral_7b), 12'879'925'248);
  EXPECT_EQ(verify::expert_parameter_count(mixtral_7b), 32LL * 8 * 3 * 4096 * 14336);
  const auto mixtral_22b = of_experts(
      56, 6144, 48, 8, 128, 32768, {.num_experts = 8, .moe_ffn_hidden_size = 16384, .routing = {.topk = 2}});
  EXPECT_EQ(verify::parameter_count(mixtral_22b), 140'630'071'296);
  const auto qwen = of_experts(94, 4096, 64, 4, 128, 151936,
                               {.num_experts = 128, .moe_ffn_hidden_size = 1536, .routing = {.topk = 8}});
  EXPECT_EQ(verify::parameter_count(qwen), 235'093'634'560 - 94 * 2 * 128);
  EXPECT_EQ(verify::active_parameter_count(qwen) / 100'000'000, 221);  // "22B activated"
  auto gpt_oss = of_experts(36, 2880, 64, 8, 64, 201088,
                            {.num_experts = 128, .moe_ffn_hidden_size = 2880, .routing = {.topk = 4}});
  gpt_oss.bias = true;
  EXPECT_EQ(verify::parameter_count(gpt_oss), 116'829'156'672 - 36 * 64);
}

TEST(ParameterCount, CountsExpertsInTheLayersThatHaveThem) {
  sim::GptConfig shape = of_experts(3, 8, 2, 2, 4, 16,
                                    {.num_experts = 4,
                                     .moe_layer_freq = {.entries = {0, 1, 0}},
                                     .moe_ffn_hidden_size = 6,
                                     .routing = {.topk = 2}});
  const std::int64_t listed = verify::parameter_count(shape);
  EXPECT_EQ(verify::expert_parameter_count(shape), 4 * 3 * 8 * 6);
  EXPECT_EQ(verify::active_parameter_count(shape), listed - 2 * 3 * 8 * 6);
  shape.experts.shared_expert_intermediate_size = 10;
  EXPECT_EQ(verify::parameter_count(shape), listed + 3 * 8 * 10);
  shape.experts.shared_expert_gate = true;
  EXPECT_EQ(verify::parameter_count(shape), listed + 3 * 8 * 10 + 8);
  shape.experts.moe_layer_freq = {.every = 2};  // layers 0 and 2
  EXPECT_EQ(verify::expert_parameter_count(shape), 2 * 4 * 3 * 8 * 6);
  shape.experts.num_experts = 1 << 24;
  shape.experts.moe_ffn_hidden_size = 1 << 24;
  shape.hidden_size = 1 << 22;
  EXPECT_THROW(verify::parameter_count(shape), sim::Error);
}

TEST(ParameterCount, ABiasOfQueriesKeysAndValuesAlone) {
  const sim::GptConfig qwen2{.num_layers = 24,
                             .hidden_size = 896,
                             .ffn_hidden_size = 4864,
                             .num_attention_heads = 14,
                             .num_query_groups = 2,
                             .seq_length = 4096,
                             .vocab_size = 151936,
                             .rotary_base = 10'000,
                             .normalization = sim::Norm::rms_norm,
                             .gated = true,
                             .bias = false,
                             .add_qkv_bias = true};
  EXPECT_EQ(verify::parameter_count(qwen2), 494'032'768);
}

}  // namespace
