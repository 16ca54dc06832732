#pragma once

/// Self-attention of a transformer layer: linear_qkv, rotary positions, softmax attention of this rank's
/// heads, linear_proj. Query heads share key and value heads in groups; heads, and with them groups, are
/// split over the tensor-model-parallel group. Where there are fewer groups than ranks, linear_qkv's output
/// is gathered, and each rank takes its query heads with their group.
///
/// Shapes  input [T, H], T = S B, row s B + b, replicated, or [T/tp, H] with sequence_parallel;  linear_qkv
///         [(n + 2 g) d, H], group by group [q ... q, k, v];  scores [B, n/tp, S, S];  linear_proj [H, n d];
///         output as input. n heads, g query groups, d = the head dimension.
/// Calls   those of the two linear layers. With fewer groups than ranks, forward one all_gather of [T, (n + 2
///         g) d / tp] more, backward one reduce_scatter.
/// Errors  attention_heads, when heads do not divide by groups or tp, or groups and tp by neither; partition.
/// Exact   scores and probabilities of a head are those of one rank, bit for bit.
/// Source  Shoeybi et al. 2019; Ainslie et al. 2023 (groups); Megatron-LM SelfAttention.

#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/parallel_dropout.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/tensor/rotary.h"

namespace sim {

struct SelfAttentionConfig {
  std::string name;  // "self_attention"
  DType dtype = DType::f32;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;  // n
  std::int64_t num_query_groups = 0;     // g
  std::int64_t kv_channels = 0;          // d
  std::int64_t sequence_length = 0;      // S
  std::int64_t rotary_base = 0;          // 0: no rotary positions
  bool causal = true;
  Ratio attention_dropout = {0, 1};  // of probabilities; each rank for its own heads
  bool bias = true;
  bool sequence_parallel = false;
  Initial initial = {};
};

class SelfAttention {
 public:
  SelfAttention(Rank& rank, const SelfAttentionConfig& config);

  struct Saved {
    ColumnParallelLinear::Saved qkv;
    Tensor queries;        // [B, n/tp, S, d], turned
    Tensor keys;           // [B, own groups, S, d], turned
    Tensor values;         // [B, own groups, S, d]
    Tensor probabilities;  // [B, n/tp, S, S], before dropout
    RowParallelLinear::Saved proj;
    std::uint64_t pass;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  /// Each pass has dropout masks of its own.
  Forward forward(const Tensor& input, std::uint64_t pass = 0);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  ColumnParallelLinear& linear_qkv() { return qkv_; }
  RowParallelLinear& linear_proj() { return proj_; }
  std::vector<Parameter*> parameters();

 private:
  bool shares_groups() const { return config_.num_query_groups < tp_.size(); }
  std::int64_t own_heads() const { return config_.num_attention_heads / tp_.size(); }
  std::int64_t own_groups() const { return shares_groups() ? 1 : config_.num_query_groups / tp_.size(); }
  enum class Part { queries, keys, values };
  std::int64_t column_of(Part part, std::int64_t group) const;
  Tensor heads_of(const Tensor& mixed, Part part) const;
  void put_heads(const Tensor& heads, Tensor& mixed, Part part) const;
  Tensor turned(const Tensor& heads, bool backward) const;

  SelfAttentionConfig config_;
  Communicator& tp_;
  RotaryTables rotary_;
  ParallelDropout dropout_;
  ColumnParallelLinear qkv_;
  RowParallelLinear proj_;
};

}  // namespace sim
