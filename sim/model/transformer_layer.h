#pragma once

/// A pre-norm transformer layer: x + dropout(attention(norm(x))), then x + dropout(mlp(norm(x))). Latent
/// attention may take the place of self-attention, and a mixture of experts that of the MLP.
///
/// Shapes  input and output [T, H], T = S B, row s B + b, replicated, or [T/tp, H] with sequence_parallel.
///         With context parallelism S counts this rank's rows of a sequence.
/// Calls   those of self-attention and the MLP: two all_reduces of [T, H] forward and two backward. With
///         sequence_parallel an all_gather and a reduce_scatter replace each of them, and backward gathers
///         each input once more with an all_gather. With experts, those of MoeLayer take the place of the
///         MLP's, and with latent attention those of MultiLatentAttention that of self-attention's.
/// Errors  sequence_split: with experts and sequence parallelism, a context-parallel rank's part of a
///         sequence that is not a multiple of tp; those of its parts.
/// Source  Shoeybi et al. 2019; Korthikanti et al. 2022; Megatron-LM TransformerLayer.

#include <optional>

#include "sim/experts/moe_layer.h"
#include "sim/model/gpt_config.h"
#include "sim/model/multi_latent_attention.h"
#include "sim/model/self_attention.h"
#include "sim/parallel/mlp.h"
#include "sim/parallel/parallel_dropout.h"
#include "sim/parallel/parallel_norm.h"

namespace sim {

/// One run of a layer.
struct LayerPass {
  std::uint64_t number = 0;  // each draws its own dropout masks
  /// Whether the layer counts tokens and attaches auxiliary losses. Of the two forward runs of a recomputed
  /// layer the second one does, as in Megatron.
  bool counts = true;
};

class TransformerLayer {
 public:
  TransformerLayer(Rank& rank, const GptConfig& config, const LayerPlace& place);

  struct Saved {
    ParallelNorm::Saved input_norm;
    SelfAttention::Saved attention;  // empty with latent attention
    std::optional<MultiLatentAttention::Saved> latent;
    ParallelNorm::Saved mlp_norm;
    Mlp::Saved mlp;  // empty with experts
    std::optional<MoeLayer::Saved> experts;
    std::uint64_t pass;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input, const LayerPass& pass);
  Forward forward(const Tensor& input, std::uint64_t pass = 0) { return forward(input, LayerPass{pass}); }
  /// Returns the gradient of the input. `aux_loss_scale` is the factor of the auxiliary losses of experts.
  Tensor backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale = {1, 1});

  /// Returns the layer's experts, or null if it has an MLP.
  MoeLayer* experts() { return experts_ ? &*experts_ : nullptr; }

  /// The parameters, in the order in which forward uses them.
  std::vector<Parameter*> parameters();

 private:
  Tensor forward_attention(const Tensor& input, std::uint64_t pass, Saved& saved);
  Tensor backward_attention(const Saved& saved, const Tensor& grad);
  Tensor forward_mlp(const Tensor& input, bool counts, Saved& saved);
  Tensor backward_mlp(const Saved& saved, const Tensor& grad, Ratio aux_loss_scale);

  ParallelNorm input_norm_;
  std::optional<SelfAttention> attention_;  // a layer has either self-attention or latent attention
  std::optional<MultiLatentAttention> latent_;
  ParallelDropout attention_dropout_;
  ParallelNorm mlp_norm_;
  std::optional<Mlp> mlp_;  // a layer has either an MLP or experts
  std::optional<MoeLayer> experts_;
  std::int64_t rows_of_sequence_;  // the number of tokens of a sequence that this rank has
  ParallelDropout mlp_dropout_;
};

}  // namespace sim
