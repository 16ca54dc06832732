#include "verify/checks/parameter_count.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/layout/size_rules.h"

namespace verify {

namespace {

void check(const ModelShape& shape) {
  sim::require_size("--num-layers", shape.num_layers);
  sim::require_size("--hidden-size", shape.hidden_size);
  sim::require_size("--ffn-hidden-size (from --hidden-size unless given)", shape.ffn_hidden_size);
  sim::require_size("--num-attention-heads", shape.num_attention_heads);
  sim::require_size("--num-query-groups", shape.num_query_groups);
  sim::require_size("--vocab-size", shape.vocab_size);
  sim::require_size("--seq-length", shape.seq_length);
  if (shape.kv_channels) {
    sim::require_size("--kv-channels", *shape.kv_channels);
    sim::require_size("--num-attention-heads times --kv-channels",
                      sim::capped_product({shape.num_attention_heads, *shape.kv_channels}));
  } else if (shape.hidden_size % shape.num_attention_heads != 0) {
    sim::refuse(
        {.code = "heads_div",
         .option = "--num-attention-heads",
         .numbers = fmt::format("hidden size {}, {} heads", shape.hidden_size, shape.num_attention_heads),
         .rule = "the hidden size must be a multiple of the number of heads, unless --kv-channels gives "
                 "their size",
         .hint = fmt::format("a number of heads that divides {}", shape.hidden_size)});
  }
  if (shape.num_attention_heads % shape.num_query_groups != 0) {
    sim::refuse({.code = "groups_div",
                 .option = "--num-query-groups",
                 .numbers = fmt::format("{} heads, {} query groups", shape.num_attention_heads,
                                        shape.num_query_groups),
                 .rule = "the number of heads must be a multiple of the number of query groups",
                 .hint = fmt::format("a number of query groups that divides {}", shape.num_attention_heads)});
  }
}

/// One layer has at most a few times 2^48 parameters, and so have the embeddings. Only the product with the
/// number of layers can be too large.
std::int64_t all_layers(std::int64_t num_layers, std::int64_t layer) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(num_layers, layer, &product) && product <= kMost) return product;
  sim::refuse({.code = "too_many_parameters",
               .option = "--num-layers",
               .numbers = fmt::format("{} layers of {} parameters", num_layers, layer),
               .rule = fmt::format("the layers of a model have at most {} parameters", kMost),
               .hint = "fewer layers, or a smaller hidden size"});
}

std::int64_t linear(std::int64_t out, std::int64_t in, bool has_bias) {
  return out * in + (has_bias ? out : 0);
}

std::int64_t layer_parameters(const ModelShape& shape) {
  const std::int64_t h = shape.hidden_size;
  const std::int64_t q = shape.num_attention_heads * shape.head_size();
  const std::int64_t kv = shape.num_query_groups * shape.head_size();
  const bool bias = shape.linear_bias, qkv_bias = bias || shape.add_qkv_bias;
  const std::int64_t attention = linear(q, h, qkv_bias) + 2 * linear(kv, h, qkv_bias) + linear(h, q, bias);
  const std::int64_t up = linear(shape.ffn_hidden_size, h, bias) * (shape.gated_mlp ? 2 : 1);
  const std::int64_t mlp = up + linear(h, shape.ffn_hidden_size, bias);
  const std::int64_t norms = 2 * h * (shape.rms_norm ? 1 : 2);
  return attention + mlp + norms;
}

}  // namespace

std::int64_t parameter_count(const ModelShape& shape) {
  check(shape);
  const std::int64_t h = shape.hidden_size;
  const std::int64_t embeddings = shape.vocab_size * h * (shape.untied_output ? 2 : 1) +
                                  (shape.learned_positions ? shape.positions() * h : 0);
  const std::int64_t final_norm = h * (shape.rms_norm ? 1 : 2);
  return all_layers(shape.num_layers, layer_parameters(shape)) + embeddings + final_norm;
}

}  // namespace verify
