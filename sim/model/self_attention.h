#pragma once

/// The self-attention of a transformer layer: linear_qkv, rotary positions, softmax attention of this rank's
/// heads, linear_proj. With qk_layernorm, each query head and each key head has a norm before its positions.
/// Query heads share key and value heads in groups. Heads, and with them groups, are split over the
/// tensor-model-parallel group. If there are fewer groups than ranks, the output of linear_qkv is gathered,
/// and each rank takes its query heads with the keys and values of their group.
///
/// Shapes  input [T, H], T = S B, row s B + b, replicated, or [T/tp, H] with sequence_parallel;  linear_qkv
///         [(n + 2 g) d, H], group by group [q ... q, k, v];  the norms of queries and of keys [d];  scores
///         [B, n/tp, S, S];  linear_proj [H, n d]; output as input. n heads, g query groups, d = the head
///         dimension. With context parallelism S is this rank's part of the sequence (sequence_cut.h) in all
///         shapes but those of scores. Packed documents each attend to themselves alone, and their rotary
///         positions begin again at 0.
/// Calls   those of the two linear layers and of core_attention.h. With fewer groups than ranks, additionally
///         one all_gather of [T, (n + 2 g) d / tp] in forward and one reduce_scatter in backward. A rank has
///         the gradients of the norms that its own heads give; sequence_parallel_grads.h sums them over tp.
/// Errors  attention_heads, when the number of heads is not a multiple of groups and of tp, or neither of
///         groups and tp is a multiple of the other; those of core_attention.h; partition.
/// Exact   The scores and probabilities of a head equal those of one tensor-parallel rank, bit for bit.
/// Source  Shoeybi et al. 2019; Ainslie et al. 2023 (groups); Dehghani et al. 2023 (norms); Megatron-LM
///         SelfAttention.

#include <optional>

#include "sim/context/core_attention.h"
#include "sim/model/gpt_config.h"
#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/parallel_norm.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/tensor/rotary.h"

namespace sim {

class SelfAttention {
 public:
  SelfAttention(Rank& rank, const GptConfig& config, const LayerPlace& place);

  struct Saved {
    ColumnParallelLinear::Saved qkv;
    ParallelNorm::Saved q_norm, k_norm;  // empty without qk_layernorm
    CoreAttention::Saved core;           // its queries and keys have been rotated
    RowParallelLinear::Saved proj;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  /// Runs the layer. Each `pass` draws its own dropout masks.
  Forward forward(const Tensor& input, std::uint64_t pass = 0);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  ColumnParallelLinear& linear_qkv() { return qkv_; }
  RowParallelLinear& linear_proj() { return proj_; }
  /// The norms of queries and keys; null without qk_layernorm.
  ParallelNorm* q_layernorm() { return q_norm_ ? &*q_norm_ : nullptr; }
  ParallelNorm* k_layernorm() { return k_norm_ ? &*k_norm_ : nullptr; }
  std::vector<Parameter*> parameters();

 private:
  /// Whether several ranks share a query group, because there are fewer groups than ranks.
  bool shares_groups() const { return config_.num_query_groups < tp_.size(); }
  std::int64_t own_heads() const { return config_.num_attention_heads / tp_.size(); }
  std::int64_t own_groups() const { return shares_groups() ? 1 : config_.num_query_groups / tp_.size(); }
  enum class Part { queries, keys, values };
  std::int64_t column_of(Part part, std::int64_t group) const;
  Tensor heads_of(const Tensor& mixed, Part part) const;
  void put_heads(const Tensor& heads, Tensor& mixed, Part part) const;
  Tensor turned(const Tensor& heads, bool backward) const;
  using HeadNorm = std::optional<ParallelNorm>;
  Tensor normalized(HeadNorm& norm, const Tensor& heads, ParallelNorm::Saved& saved) const;
  Tensor normalized_back(HeadNorm& norm, const ParallelNorm::Saved& saved, const Tensor& grad) const;

  GptConfig config_;
  Communicator& tp_;
  SequenceCut cut_;
  RotaryTables rotary_;
  std::unique_ptr<CoreAttention> core_;
  ColumnParallelLinear qkv_;
  HeadNorm q_norm_, k_norm_;
  RowParallelLinear proj_;
};

}  // namespace sim
