#include "sim/model/multi_latent_attention.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/model/own_rotary_tables.h"
#include "sim/parallel/mappings.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/permutation.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

const GptConfig& checked_latent(const GptConfig& config, const std::string& name, int tp) {
  const LatentSizes& sizes = *config.latent;
  const std::int64_t heads = config.num_attention_heads;
  const bool fits = std::min({heads, sizes.kv_lora_rank, sizes.qk_head_dim, sizes.qk_pos_emb_head_dim,
                              sizes.v_head_dim, sizes.rotary_base, config.seq_length}) > 0 &&
                    sizes.q_lora_rank >= 0 && heads % tp == 0;
  if (fits) return config;
  refuse(
      {.code = "attention_heads",
       .option = name,
       .numbers = fmt::format("{} heads, latent states of {} and {}, heads of {} + {} and {} channels, tp {}",
                              heads, sizes.q_lora_rank, sizes.kv_lora_rank, sizes.qk_head_dim,
                              sizes.qk_pos_emb_head_dim, sizes.v_head_dim, tp),
       .rule =
           "heads are a multiple of tp, and all sizes but that of the latent state of queries are above 0",
       .hint = "a tp that divides the heads"});
}

DuplicatedLinearConfig down_config(const GptConfig& config, const std::string& name, std::int64_t outputs) {
  return {.name = name,
          .dtype = config.dtype,
          .input_size = config.hidden_size,
          .output_size = outputs,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

std::optional<DuplicatedLinear> query_down(Rank& rank, const GptConfig& config, const std::string& name) {
  if (config.latent->q_lora_rank == 0) return std::nullopt;
  return DuplicatedLinear(rank,
                          down_config(config, name + ".linear_q_down_proj", config.latent->q_lora_rank));
}

std::optional<ParallelNorm> latent_norm(Rank& rank, const GptConfig& config, const std::string& name,
                                        std::int64_t size) {
  if (!config.qk_layernorm || size == 0) return std::nullopt;
  return ParallelNorm(rank, {.name = name,
                             .dtype = config.dtype,
                             .hidden_size = size,
                             .norm = config.normalization,
                             .epsilon = config.norm_epsilon,
                             .sequence_parallel = config.sequence_parallel,
                             .initial = config.norm_initial});
}

ColumnParallelLinearConfig up_config(const GptConfig& config, const std::string& name, std::int64_t inputs,
                                     std::int64_t channels) {
  return {.name = name,
          .dtype = config.dtype,
          .input_size = inputs,
          .output_size = config.num_attention_heads * channels,
          .bias = false,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

ColumnParallelLinearConfig query_up_config(const GptConfig& config, const std::string& name) {
  const LatentSizes& sizes = *config.latent;
  return sizes.q_lora_rank == 0
             ? up_config(config, name + ".linear_q_proj", config.hidden_size, sizes.query_channels())
             : up_config(config, name + ".linear_q_up_proj", sizes.q_lora_rank, sizes.query_channels());
}

RowParallelLinearConfig latent_proj_config(const GptConfig& config, const std::string& name) {
  return {.name = name + ".linear_proj",
          .dtype = config.dtype,
          .input_size = config.num_attention_heads * config.latent->v_head_dim,
          .output_size = config.hidden_size,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

/// Views a tensor as rows of its last dimension, or of a number of channels that divides it.
Tensor in_rows(const Tensor& x, std::int64_t channels) {
  return x.reshaped({x.count() / channels, channels});
}

/// Puts two tensors side by side, row by row.
Tensor side_by_side(const Tensor& left, const Tensor& right) {
  Tensor both = left.device().empty(left.dtype(), {left.shape()[0], columns_of(left) + columns_of(right)});
  put_columns(left, both, 0);
  put_columns(right, both, columns_of(left));
  return both;
}

std::vector<Parameter*> parameters_of(std::optional<ParallelNorm>& norm) {
  return norm ? norm->parameters() : std::vector<Parameter*>{};
}

/// The mapping between the rank's own shared part of keys and that of all tokens, which its heads take.
const Mapping& shared_keys_mapping(bool sequence_parallel) {
  return sequence_parallel ? kGatherFromSequenceParallelRegion : kCopyToTensorModelParallelRegion;
}

}  // namespace

MultiLatentAttention::MultiLatentAttention(Rank& rank, const GptConfig& config, const LayerPlace& place)
    : config_(checked_latent(config, place.name, rank.groups.get("tp").size())),
      sizes_(*config_.latent),
      tp_(rank.groups.get("tp")),
      cut_(config.sequence_cut(rank.groups.get("cp").size())),
      rotary_(own_rotary_tables(rank, config_, {sizes_.qk_pos_emb_head_dim, sizes_.rotary_base}, cut_)),
      core_(make_core_attention(rank,
                                {.name = place.name + ".core_attention",
                                 .keys = {.causal = config.causal, .window = config.window_of(place.number)},
                                 .dropout = config.attention_dropout},
                                cut_, config.cp_comm_type_of(place.number))),
      q_down_(query_down(rank, config_, place.name)),
      kv_down_(rank, down_config(config_, place.name + ".linear_kv_down_proj",
                                 sizes_.kv_lora_rank + sizes_.qk_pos_emb_head_dim)),
      q_norm_(latent_norm(rank, config_, place.name + ".q_layernorm", sizes_.q_lora_rank)),
      kv_norm_(latent_norm(rank, config_, place.name + ".kv_layernorm", sizes_.kv_lora_rank)),
      q_up_(rank, query_up_config(config_, place.name)),
      kv_up_(rank, up_config(config_, place.name + ".linear_kv_up_proj", sizes_.kv_lora_rank,
                             sizes_.qk_head_dim + sizes_.v_head_dim)),
      proj_(rank, latent_proj_config(config_, place.name)) {}

std::vector<Parameter*> MultiLatentAttention::parameters() {
  return joined({q_down_ ? q_down_->parameters() : std::vector<Parameter*>{}, parameters_of(q_norm_),
                 q_up_.parameters(), kv_down_.parameters(), parameters_of(kv_norm_), kv_up_.parameters(),
                 proj_.parameters()});
}

// ---- heads ------------------------------------------------------------------------------------------------

/// Views rows of one head each as [S, B, heads, channels].
Tensor MultiLatentAttention::of_heads(const Tensor& x) const {
  const std::int64_t rows = cut_.local_length(), channels = columns_of(x);
  const std::int64_t heads = own_heads();
  return x.reshaped({rows, x.count() / (rows * heads * channels), heads, channels});
}

/// Rotates [S, B, heads, d_r] by its positions. The elements of a pair lie side by side, and then in halves.
Tensor MultiLatentAttention::turned(const Tensor& x) const {
  const std::int64_t channels = x.shape()[3];
  const Tensor halves =
      permuted(x.reshaped({x.count() / channels, 1, channels / 2, 2}), {0, 1, 3, 2}).reshaped(x.shape());
  return rotate(halves, rotary_.cosines, rotary_.sines, false);
}
Tensor MultiLatentAttention::turned_back(const Tensor& grad) const {
  const std::int64_t channels = grad.shape()[3];
  const Tensor halves = rotate(grad, rotary_.cosines, rotary_.sines, true);
  return permuted(halves.reshaped({grad.count() / channels, 1, 2, channels / 2}), {0, 1, 3, 2})
      .reshaped(grad.shape());
}

/// Makes this rank's heads from the outputs of the up-projections, [T, ..], and the shared part [T, d_r].
MultiLatentAttention::Heads MultiLatentAttention::heads_of(const Tensor& queries,
                                                           const Tensor& keys_and_values,
                                                           const Tensor& shared_keys) const {
  const std::int64_t d_n = sizes_.qk_head_dim, d_r = sizes_.qk_pos_emb_head_dim, d = sizes_.query_channels();
  const std::int64_t tokens = queries.shape()[0], rows = cut_.local_length();
  const Tensor q = in_rows(queries, d), kv = in_rows(keys_and_values, d_n + sizes_.v_head_dim);
  const Tensor q_turned = turned(of_heads(columns(q, d_n, d_r)));
  const Tensor k_turned = turned(shared_keys.reshaped({rows, tokens / rows, 1, d_r})).reshaped({tokens, d_r});

  Tensor keys = q.device().empty(q.dtype(), {tokens, own_heads() * d});
  for (std::int64_t head = 0; head < own_heads(); ++head) put_columns(k_turned, keys, head * d + d_n);
  Tensor keys_by_head = in_rows(keys, d);
  put_columns(columns(kv, 0, d_n), keys_by_head, 0);
  return {.queries = of_heads(side_by_side(columns(q, 0, d_n), in_rows(q_turned, d_r))),
          .keys = of_heads(keys_by_head),
          .values = of_heads(columns(kv, d_n, sizes_.v_head_dim))};
}

/// Returns the gradient of the output of the up-projection of queries from that of [S, B, heads, d].
Tensor MultiLatentAttention::queries_back(const Tensor& grad) const {
  const Tensor rows = in_rows(grad, sizes_.query_channels());
  const Tensor positions =
      turned_back(of_heads(columns(rows, sizes_.qk_head_dim, sizes_.qk_pos_emb_head_dim)));
  return in_rows(
      side_by_side(columns(rows, 0, sizes_.qk_head_dim), in_rows(positions, sizes_.qk_pos_emb_head_dim)),
      own_heads() * sizes_.query_channels());
}

/// Returns the gradient of the shared part of keys, [T, d_r], that this rank's heads give.
Tensor MultiLatentAttention::shared_keys_back(const Tensor& grad_keys) const {
  const std::int64_t d_r = sizes_.qk_pos_emb_head_dim, d = sizes_.query_channels(),
                     rows = cut_.local_length();
  const Tensor flat = in_rows(grad_keys, own_heads() * d);
  const std::int64_t tokens = flat.shape()[0];
  Tensor sum = filled(flat.device(), sum_dtype(flat.dtype()), {tokens, d_r}, 0);
  for (std::int64_t head = 0; head < own_heads(); ++head)
    add_to(sum, cast(columns(flat, head * d + sizes_.qk_head_dim, d_r), sum.dtype()));
  const Tensor stored = cast(sum, flat.dtype());
  return turned_back(stored.reshaped({rows, tokens / rows, 1, d_r})).reshaped({tokens, d_r});
}

// ---- forward and backward ---------------------------------------------------------------------------------

MultiLatentAttention::Forward MultiLatentAttention::forward(const Tensor& input, std::uint64_t pass) {
  Saved saved;
  const auto normalized = [](std::optional<ParallelNorm>& norm, const Tensor& x,
                             ParallelNorm::Saved& of_norm) {
    if (!norm) return x;
    auto result = norm->forward(x);
    of_norm = std::move(result.saved);
    return result.output;
  };
  Tensor latent_queries = input;
  if (q_down_) {
    auto down = q_down_->forward(input);
    saved.q_down = std::move(down.saved);
    latent_queries = down.output;
  }
  auto kv_down = kv_down_.forward(input);
  saved.kv_down = std::move(kv_down.saved);
  const Tensor shared_keys =
      shared_keys_mapping(config_.sequence_parallel)
          .forward(columns(kv_down.output, sizes_.kv_lora_rank, sizes_.qk_pos_emb_head_dim), tp_,
                   "multi_latent_attention.k_pos_emb");
  const Tensor latent = columns(kv_down.output, 0, sizes_.kv_lora_rank);
  latent_queries = normalized(q_norm_, latent_queries, saved.q_norm);
  auto q_up = q_up_.forward(latent_queries);
  auto kv_up = kv_up_.forward(normalized(kv_norm_, latent, saved.kv_norm));
  saved.q_up = std::move(q_up.saved);
  saved.kv_up = std::move(kv_up.saved);
  const std::int64_t tokens = q_up.output.shape()[0];
  require_shapes(tokens % cut_.local_length() == 0, {&q_up.output}, "multi_latent_attention",
                 "the number of tokens is a multiple of this rank's part of a sequence");
  const Heads heads = heads_of(q_up.output, kv_up.output, shared_keys);
  const auto heads_first = [](const Tensor& x) { return permuted(x, {1, 2, 0, 3}); };
  auto core =
      core_->forward(heads_first(heads.queries), heads_first(heads.keys), heads_first(heads.values), pass);
  auto proj = proj_.forward(in_rows(permuted(core.context, {2, 0, 1, 3}), own_heads() * sizes_.v_head_dim));
  saved.core = std::move(core.saved);
  saved.proj = std::move(proj.saved);
  return {proj.output, std::move(saved)};
}

Tensor MultiLatentAttention::backward(const Saved& saved, const Tensor& grad_output) {
  const auto sequence_first = [](const Tensor& x) { return permuted(x, {2, 0, 1, 3}); };
  const Tensor grad_flat = proj_.backward(saved.proj, grad_output);
  const Tensor grad_context = permuted(of_heads(in_rows(grad_flat, sizes_.v_head_dim)), {1, 2, 0, 3});
  const CoreAttention::Gradients grads = core_->backward(saved.core, grad_context);

  const Tensor grad_keys = sequence_first(grads.keys);
  const Tensor grad_kv =
      side_by_side(columns(in_rows(grad_keys, sizes_.query_channels()), 0, sizes_.qk_head_dim),
                   in_rows(sequence_first(grads.values), sizes_.v_head_dim));
  const auto norm_back = [](std::optional<ParallelNorm>& norm, const ParallelNorm::Saved& of_norm,
                            const Tensor& grad) { return norm ? norm->backward(of_norm, grad) : grad; };
  const Tensor grad_latent =
      norm_back(kv_norm_, saved.kv_norm,
                kv_up_.backward(saved.kv_up, in_rows(grad_kv, own_heads() * columns_of(grad_kv))));
  const Tensor grad_queries = norm_back(
      q_norm_, saved.q_norm, q_up_.backward(saved.q_up, queries_back(sequence_first(grads.queries))));
  const Tensor grad_shared =
      shared_keys_mapping(config_.sequence_parallel)
          .backward(shared_keys_back(grad_keys), tp_, "multi_latent_attention.k_pos_emb");
  const Tensor grad_of_kv = kv_down_.backward(saved.kv_down, side_by_side(grad_latent, grad_shared));
  return add(q_down_ ? q_down_->backward(saved.q_down, grad_queries) : grad_queries, grad_of_kv);
}

}  // namespace sim
