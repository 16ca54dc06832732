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
  const verify::ModelShape shape{.num_layers = l,
                                 .hidden_size = h,
                                 .ffn_hidden_size = 4 * h,
                                 .num_attention_heads = heads,
                                 .num_query_groups = heads,
                                 .vocab_size = vocab,
                                 .seq_length = s};
  RC_ASSERT(verify::parameter_count(shape) - 2 * h == 12 * l * h * h + 13 * l * h + (vocab + s) * h);
}

TEST(ParameterCount, Llama3405B) {
  const verify::ModelShape shape{.num_layers = 126,
                                 .hidden_size = 16384,
                                 .ffn_hidden_size = 53248,
                                 .num_attention_heads = 128,
                                 .num_query_groups = 8,
                                 .vocab_size = 128000,
                                 .seq_length = 8192,
                                 .gated_mlp = true,
                                 .linear_bias = false,
                                 .untied_output = true,
                                 .rms_norm = true,
                                 .learned_positions = false};
  // 126 (2 * 16384^2 + 2 * 16384 * 1024 + 3 * 16384 * 53248 + 2 * 16384) + 2 * 128000 * 16384 + 16384
  EXPECT_EQ(verify::parameter_count(shape), 405'845'000'192);
}

// Their model cards give these counts (Qwen3 without the norms of queries and keys, 2 * 128 a layer).
TEST(ParameterCount, HeadsOfASizeOfTheirOwn) {
  verify::ModelShape shape{.num_layers = 28,
                           .hidden_size = 1024,
                           .ffn_hidden_size = 3072,
                           .num_attention_heads = 16,
                           .num_query_groups = 8,
                           .kv_channels = 128,
                           .vocab_size = 151936,
                           .seq_length = 4096,
                           .gated_mlp = true,
                           .linear_bias = false,
                           .rms_norm = true,
                           .learned_positions = false};
  EXPECT_EQ(verify::parameter_count(shape), 596'049'920 - 28 * 2 * 128);
  shape.num_attention_heads = shape.num_query_groups = 24;  // it does not divide H
  EXPECT_NO_THROW(verify::parameter_count(shape));
  shape.kv_channels = 1 << 21;
  EXPECT_THROW(verify::parameter_count(shape), sim::Error);
}

TEST(ParameterCount, ABiasOfQueriesKeysAndValuesAlone) {
  const verify::ModelShape qwen2{.num_layers = 24,
                                 .hidden_size = 896,
                                 .ffn_hidden_size = 4864,
                                 .num_attention_heads = 14,
                                 .num_query_groups = 2,
                                 .vocab_size = 151936,
                                 .seq_length = 4096,
                                 .gated_mlp = true,
                                 .linear_bias = false,
                                 .add_qkv_bias = true,
                                 .rms_norm = true,
                                 .learned_positions = false};
  EXPECT_EQ(verify::parameter_count(qwen2), 494'032'768);
}

}  // namespace
