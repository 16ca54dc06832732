#pragma once

/// A pre-norm transformer layer: x + dropout(attention(norm(x))), then x + dropout(mlp(norm(x))).
///
/// Shapes  input and output [T, H], T = S B, row s B + b, replicated, or [T/tp, H] with sequence_parallel.
/// Calls   those of self-attention and the MLP: two all_reduces of [T, H] forward and two backward. With
///         sequence_parallel an all_gather and a reduce_scatter replace each of them, and backward gathers
///         each input once more with an all_gather.
/// Source  Shoeybi et al. 2019; Korthikanti et al. 2022; Megatron-LM TransformerLayer.

#include "sim/parallel/mlp.h"
#include "sim/model/self_attention.h"
#include "sim/parallel/parallel_norm.h"

namespace sim {

struct TransformerLayerConfig {
  std::string name;  // such as "layers.0"
  DType dtype = DType::f32;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;
  std::int64_t kv_channels = 0;
  std::int64_t sequence_length = 0;
  std::int64_t rotary_base = 0;  // 0: no rotary positions
  Norm norm = Norm::layer_norm;
  Ratio epsilon = {1, 100000};
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool bias = true;
  bool causal = true;
  Ratio attention_dropout = {0, 1};
  /// The dropout of each residual branch. With sequence_parallel, each rank draws masks for its own tokens.
  Ratio hidden_dropout = {0, 1};
  bool sequence_parallel = false;
  Initial initial = {};
  Initial norm_initial = {};
};

class TransformerLayer {
 public:
  TransformerLayer(Rank& rank, const TransformerLayerConfig& config);

  struct Saved {
    ParallelNorm::Saved input_norm;
    SelfAttention::Saved attention;
    ParallelNorm::Saved mlp_norm;
    Mlp::Saved mlp;
    std::uint64_t pass;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  /// Runs the layer. Each `pass` draws its own dropout masks.
  Forward forward(const Tensor& input, std::uint64_t pass = 0);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  /// The parameters, in the order in which forward uses them.
  std::vector<Parameter*> parameters();

 private:
  ParallelNorm input_norm_;
  SelfAttention attention_;
  ParallelDropout attention_dropout_;
  ParallelNorm mlp_norm_;
  Mlp mlp_;
  ParallelDropout mlp_dropout_;
};

}  // namespace sim
