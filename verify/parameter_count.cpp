#include "verify/parameter_count.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/layout/size_rules.h"

namespace verify {

namespace {

void check(const ModelShape& shape) {
  sim::check_size("--num-layers", shape.num_layers);
  sim::check_size("--hidden-size", shape.hidden_size);
  sim::check_size("--ffn-hidden-size", shape.ffn_hidden_size);
  sim::check_size("--num-attention-heads", shape.num_attention_heads);
  sim::check_size("--num-query-groups", shape.num_query_groups);
  sim::check_size("--vocab-size", shape.vocab_size);
  sim::check_size("--seq-length", shape.seq_length);
  if (shape.hidden_size % shape.num_attention_heads != 0) {
    sim::refuse(
        {.code = "heads_div",
         .option = "--num-attention-heads",
         .numbers = fmt::format("hidden size {}, {} heads", shape.hidden_size, shape.num_attention_heads),
         .rule = "the hidden size must be a multiple of the number of heads",
         .hint = "another number of heads"});
  }
  if (shape.num_attention_heads % shape.num_query_groups != 0) {
    sim::refuse({.code = "groups_div",
                 .option = "--num-query-groups",
                 .numbers = fmt::format("{} heads, {} query groups", shape.num_attention_heads,
                                        shape.num_query_groups),
                 .rule = "the number of heads must be a multiple of the number of query groups",
                 .hint = "another number of query groups"});
  }
}

/// Factors are sizes of at most 2^24, so a product of two fits easily; of three it may not.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  sim::refuse({.code = "too_many_parameters",
               .option = "--num-layers",
               .numbers = fmt::format("{} layers of {} parameters", a, b),
               .rule = "fewer than 2^63 parameters",
               .hint = "a smaller shape"});
}

std::int64_t linear(const ModelShape& shape, std::int64_t out, std::int64_t in) {
  return out * in + (shape.linear_bias ? out : 0);
}

std::int64_t layer_parameters(const ModelShape& shape) {
  const std::int64_t h = shape.hidden_size;
  const std::int64_t kv = shape.num_query_groups * (h / shape.num_attention_heads);
  const std::int64_t attention = 2 * linear(shape, h, h) + 2 * linear(shape, kv, h);
  const std::int64_t up = linear(shape, shape.ffn_hidden_size, h) * (shape.gated_mlp ? 2 : 1);
  const std::int64_t mlp = up + linear(shape, h, shape.ffn_hidden_size);
  const std::int64_t norms = 2 * h * (shape.rms_norm ? 1 : 2);
  return attention + mlp + norms;
}

}  // namespace

std::int64_t parameter_count(const ModelShape& shape) {
  check(shape);
  const std::int64_t h = shape.hidden_size;
  const std::int64_t embeddings = shape.vocab_size * h * (shape.untied_output ? 2 : 1) +
                                  (shape.learned_positions ? shape.seq_length * h : 0);
  const std::int64_t final_norm = h * (shape.rms_norm ? 1 : 2);
  return times(shape.num_layers, layer_parameters(shape)) + embeddings + final_norm;
}

}  // namespace verify
