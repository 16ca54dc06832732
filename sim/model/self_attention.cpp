#include "sim/model/self_attention.h"

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

const GptConfig& checked(const GptConfig& config, const std::string& name, int tp) {
  const std::int64_t n = config.num_attention_heads, g = config.num_query_groups;
  const bool fits = n > 0 && g > 0 && config.head_size() > 0 && config.seq_length > 0 && n % g == 0 &&
                    n % tp == 0 && (g % tp == 0 || tp % g == 0);
  if (fits) return config;
  refuse(
      {.code = "attention_heads",
       .option = name,
       .numbers =
           fmt::format("{} heads of {} channels, {} query groups, tp {}", n, config.head_size(), g, tp),
       .rule =
           "heads are a multiple of query groups and of tp; query groups are a multiple of tp, or tp of them",
       .hint = "as many query groups as heads, and a tp that divides both"});
}

ColumnParallelLinearConfig qkv_config(const GptConfig& config, const std::string& name) {
  return {.name = name + ".linear_qkv",
          .dtype = config.dtype,
          .input_size = config.hidden_size,
          .output_size = (config.num_attention_heads + 2 * config.num_query_groups) * config.head_size(),
          .bias = config.bias || config.add_qkv_bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

RowParallelLinearConfig proj_config(const GptConfig& config, const std::string& name) {
  return {.name = name + ".linear_proj",
          .dtype = config.dtype,
          .input_size = config.num_attention_heads * config.head_size(),
          .output_size = config.hidden_size,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

/// The norm of queries or of keys. Each rank normalizes its own heads.
std::optional<ParallelNorm> head_norm(Rank& rank, const GptConfig& config, const std::string& name) {
  if (!config.qk_layernorm) return std::nullopt;
  return ParallelNorm(rank, {.name = name,
                             .dtype = config.dtype,
                             .hidden_size = config.head_size(),
                             .norm = config.normalization,
                             .epsilon = config.norm_epsilon,
                             .sequence_parallel = true,
                             .initial = config.norm_initial});
}

/// Permutes [S, B, n, d] to [B, n, S, d].
Tensor heads_first(const Tensor& x) { return permuted(x, {1, 2, 0, 3}); }
/// Permutes [B, n, S, d] to [S, B, n, d].
Tensor sequence_first(const Tensor& x) { return permuted(x, {2, 0, 1, 3}); }

}  // namespace

SelfAttention::SelfAttention(Rank& rank, const GptConfig& config, const LayerPlace& place)
    : config_(checked(config, place.name, rank.groups.get("tp").size())),
      tp_(rank.groups.get("tp")),
      cut_(config.sequence_cut(rank.groups.get("cp").size())),
      rotary_(own_rotary_tables(rank, config_, {config.head_size(), config.rotary_base}, cut_)),
      core_(make_core_attention(rank,
                                {.name = place.name + ".core_attention",
                                 .keys = {.causal = config.causal, .window = config.window_of(place.number)},
                                 .dropout = config.attention_dropout},
                                cut_, config.cp_comm_type_of(place.number))),
      qkv_(rank, qkv_config(config_, place.name)),
      q_norm_(head_norm(rank, config_, place.name + ".q_layernorm")),
      k_norm_(head_norm(rank, config_, place.name + ".k_layernorm")),
      proj_(rank, proj_config(config_, place.name)) {}

std::vector<Parameter*> SelfAttention::parameters() {
  if (!q_norm_) return joined({qkv_.parameters(), proj_.parameters()});
  return joined({qkv_.parameters(), q_norm_->parameters(), k_norm_->parameters(), proj_.parameters()});
}

// ---- where heads lie in [T, ...] --------------------------------------------------------------------------

/// Returns the first column of this rank's heads in one of its groups. It counts from the rank's own
/// columns, or, if ranks share groups, from the columns of all ranks.
std::int64_t SelfAttention::column_of(Part part, std::int64_t group) const {
  const std::int64_t d = config_.head_size();
  const std::int64_t queries = config_.num_attention_heads / config_.num_query_groups * d;
  const std::int64_t ranks_a_group = shares_groups() ? tp_.size() / config_.num_query_groups : 1;
  const std::int64_t first = (shares_groups() ? tp_.rank() / ranks_a_group : group) * (queries + 2 * d);
  switch (part) {
    case Part::queries:
      return first + tp_.rank() % ranks_a_group * own_heads() * d;
    case Part::keys:
      return first + queries;
    case Part::values:
      break;
  }
  return first + queries + d;
}

/// Copies this rank's heads of all its groups out of mixed [T, ..]. Returns [S, B, heads, d].
Tensor SelfAttention::heads_of(const Tensor& mixed, Part part) const {
  const std::int64_t d = config_.head_size();
  const std::int64_t heads = part == Part::queries ? own_heads() : own_groups();
  const std::int64_t width = heads / own_groups() * d;
  Tensor out = mixed.device().empty(mixed.dtype(), {mixed.shape()[0], heads * d});
  for (std::int64_t group = 0; group < own_groups(); ++group) {
    put_columns(columns(mixed, column_of(part, group), width), out, group * width);
  }
  return out.reshaped({cut_.local_length(), mixed.shape()[0] / cut_.local_length(), heads, d});
}

/// Does the inverse of heads_of, for gradients: it copies heads to their columns of mixed.
void SelfAttention::put_heads(const Tensor& heads, Tensor& mixed, Part part) const {
  const Tensor flat = heads.reshaped({mixed.shape()[0], heads.shape()[2] * heads.shape()[3]});
  const std::int64_t width = columns_of(flat) / own_groups();
  for (std::int64_t group = 0; group < own_groups(); ++group) {
    put_columns(columns(flat, group * width, width), mixed, column_of(part, group));
  }
}

/// Rotates heads by their positions (or gradients back), if the layer has rotary positions.
Tensor SelfAttention::turned(const Tensor& heads, bool backward) const {
  return config_.rotary_base == 0 ? heads : rotate(heads, rotary_.cosines, rotary_.sines, backward);
}

/// Normalizes each head of [S, B, heads, d] by itself, if the layer has norms of queries and keys.
Tensor SelfAttention::normalized(HeadNorm& norm, const Tensor& heads, ParallelNorm::Saved& saved) const {
  if (!norm) return heads;
  const std::int64_t d = config_.head_size();
  auto result = norm->forward(heads.reshaped({heads.count() / d, d}));
  saved = std::move(result.saved);
  return result.output.reshaped(heads.shape());
}
Tensor SelfAttention::normalized_back(HeadNorm& norm, const ParallelNorm::Saved& saved,
                                      const Tensor& grad) const {
  if (!norm) return grad;
  const std::int64_t d = config_.head_size();
  return norm->backward(saved, grad.reshaped({grad.count() / d, d})).reshaped(grad.shape());
}

// ---- forward and backward ---------------------------------------------------------------------------------

SelfAttention::Forward SelfAttention::forward(const Tensor& input, std::uint64_t pass) {
  const std::int64_t d = config_.head_size();
  const auto qkv = qkv_.forward(input);
  const Tensor mixed =
      shares_groups() ? kAllGatherLastDim.forward(qkv.output, tp_, "self_attention.gather_qkv") : qkv.output;
  require_shapes(mixed.shape()[0] % cut_.local_length() == 0, {&mixed}, "self_attention",
                 "the number of tokens is a multiple of this rank's part of a sequence");
  Saved saved{.qkv = qkv.saved, .q_norm = {}, .k_norm = {}, .core = {}, .proj = {}};
  const Tensor normal_queries = normalized(q_norm_, heads_of(mixed, Part::queries), saved.q_norm);
  const Tensor normal_keys = normalized(k_norm_, heads_of(mixed, Part::keys), saved.k_norm);
  const Tensor queries = heads_first(turned(normal_queries, false));
  const Tensor keys = heads_first(turned(normal_keys, false));
  const Tensor values = heads_first(heads_of(mixed, Part::values));
  auto core = core_->forward(queries, keys, values, pass);
  const auto proj = proj_.forward(sequence_first(core.context).reshaped({mixed.shape()[0], own_heads() * d}));
  saved.core = std::move(core.saved);
  saved.proj = proj.saved;
  return {proj.output, std::move(saved)};
}

Tensor SelfAttention::backward(const Saved& saved, const Tensor& grad_output) {
  const std::int64_t d = config_.head_size();
  const Tensor grad_flat = proj_.backward(saved.proj, grad_output);
  const std::int64_t tokens = grad_flat.shape()[0], rows = cut_.local_length();
  const Tensor grad_context = heads_first(grad_flat.reshaped({rows, tokens / rows, own_heads(), d}));
  const CoreAttention::Gradients grads = core_->backward(saved.core, grad_context);

  const std::int64_t all = (config_.num_attention_heads + 2 * config_.num_query_groups) * d;
  Tensor grad_mixed =
      filled(grad_flat.device(), grad_flat.dtype(), {tokens, shares_groups() ? all : all / tp_.size()}, 0);
  const Tensor grad_queries = turned(sequence_first(grads.queries), true);
  const Tensor grad_keys = turned(sequence_first(grads.keys), true);
  put_heads(normalized_back(q_norm_, saved.q_norm, grad_queries), grad_mixed, Part::queries);
  put_heads(normalized_back(k_norm_, saved.k_norm, grad_keys), grad_mixed, Part::keys);
  put_heads(sequence_first(grads.values), grad_mixed, Part::values);
  return qkv_.backward(
      saved.qkv, shares_groups() ? kAllGatherLastDim.backward(grad_mixed, tp_, "self_attention.gather_qkv")
                                 : grad_mixed);
}

}  // namespace sim
