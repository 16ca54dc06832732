#pragma once

/// What a transformer layer keeps of one microbatch from its forward for its backward step, tensor by tensor,
/// as Megatron's layers and the kernels below them keep it.
///
/// Shapes  n is the tokens of a microbatch on a rank, after context parallelism; n_s is n, or with sequence
///         parallelism n / tp. e is the bytes of an element; H, F, heads, G and d are as in
///         parameter_count.h. r are the rows that the experts of a rank compute, if a router spreads tokens
///         evenly: k n_s etp for k chosen experts, bounded or padded by the capacity.
///
///   tensor                            bytes                       kept by
///   input of a norm (two)             e H n_s                     the norm, and the residual beside it
///   output of a norm (two)            e H n_s                     the matrix products after it
///   statistics of a norm (two)        8 n_s (RMSNorm: 4 n_s)      the norm
///   queries, keys, values             e (heads + 2 G) d n / tp    the kernel of attention
///   the same in their product         e (heads + G) d n / tp      a view of the values, where core_attn is
///                                                                 computed again, or in local layers: beside
///                                                                 rotated or normed queries and keys
///   grouped queries in their product  e heads d n / tp            the same, where they are neither
///   repeated keys and values          2 e (heads - G) d n / tp    local layers with grouped queries
///   rotary tables                     4 e d n / b                 rotations without a kernel of their own; b
///                                                                 sequences are in a microbatch
///   queries, keys before their norms  e (heads + G) d n / tp      the norms of --qk-layernorm, which keep
///                                                                 8 (heads + G) n / tp, too (RMSNorm: half)
///   latent states                     e (R_q + R_kv) n_s, e d_r n          the up-projections, or the norms
///   outputs of latent norms           e (R_q + R_kv) n_s          the up-projections, with --qk-layernorm
///   statistics of latent norms        16 n_s (RMSNorm: 8 n_s)     those norms; half of it where R_q is 0
///   latent queries, keys and values   e heads (2 (d_n + d_r) + d_v) n / tp   the kernel of attention
///   statistics of attention           4 heads n / tp              a flash kernel (Dao et al. 2022)
///   scores                            e heads S n / tp            attention without one: the softmax
///   scores in fp32                    4 heads S n / tp            unfused softmax of local layers in fp32;
///                                                                 dropout takes the copy of 16 bits
///   dropout of scores                 (e + 1) heads S n / tp      the same, with dropout: mask and result
///   output of attention               e heads d n / tp            attention and the output projection
///   its two steps                     e heads d n / tp            attention over gathered keys, with cp
///   masks of dropout (two)            H n_s                       the two dropouts, if they drop
///   MLP before its activation         e F n / tp (gated: twice)   the activation
///   MLP after its activation          e F n / tp                  the second matrix product
///   factors of an unfused gate        2 e F n / tp                their product, in an MLP and in experts:
///                                                                 the activated half, and the other with
///                                                                 its offset
///   probabilities and map             (e_r + 1) E n_s             the dispatcher; e_r bytes are an element
///                                                                 of the router
///   choice of experts                 (8 k + 4 s) n_s             indices and s scores: k, or E of a softmax
///                                                                 before the choice, or E + k + 1 of a
///                                                                 sigmoid; its own kernel keeps 4 E n_s
///   scores for a loss of balance      4 E n_s                     the loss that balances experts
///   logits for the z-loss             e_r E n_s                   that loss
///   order of rows                     8 (E n_s + r) + e_r r       the permutation of alltoall; padded rows
///                                                                 16 r + e_r r; its own kernels
///                                                                 4 (2 E + 1) n_s + (8 + e_r) r
///   input of the experts              e H r                       their first matrix product
///   experts before the activation     e F_e r / etp (gated: twice)     the activation
///   experts after the activation      e F_e r / etp (unfused: twice)   the probabilities, which multiply it;
///                                                                 a fused gate and a fused squared ReLU
///                                                                 multiply by them themselves
///   shared experts, before and after  e F_s n / tp (gated: 3)     as those of an MLP
///   gathered input of shared experts  e H n                       their first matrix product, which does not
///                                                                 gather it again, with sequence parallelism
///                                                                 and --moe-shared-expert-overlap
///   output of shared experts          e H n_s                     the product with their gate
///
/// Calls   A tensor has the module of --recompute-modules that computes it again, and is not kept then. The
///         module layernorm is norms that are modules of their own: those of layers without Transformer
///         Engine, and otherwise those before latent attention and before experts. The module mlp has the
///         norm that is fused into its first matrix product, and mla_up_proj those of its up-projections.
/// Exact   With F = 4 H, G = heads, d heads = H and a flash kernel the layer keeps H n (10 + 24 / tp) bytes
///         and the statistics; with sequence parallelism 34 H n / tp; without a flash kernel 5 heads S n / tp
///         more.
/// Source  Korthikanti et al. 2022, section 4; TransformerEngine, module/layernorm_linear.py and
///         attention/dot_product_attention; Megatron-LM, core/fusions, and of core/transformer
///         dot_product_attention.py, multi_latent_attention.py, transformer_layer.py and moe/experts.py, and
///         core/models/gpt/gpt_layer_specs.py.

#include <cstdint>
#include <vector>

#include "verify/requests/memory_options.h"
#include "verify/requests/model_options.h"

namespace verify {

struct ActivationShape {
  sim::GptConfig model;
  MemoryOptions options;
  std::int64_t padded_vocab_size = 0;
  std::int64_t tokens = 0;            // n
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t element_bytes = 2;     // e
  int tp = 1, etp = 1, ep = 1, cp = 1;
  bool sequence_parallel = false;

  /// The tokens of norms and dropout on a rank, n_s.
  std::int64_t own_tokens() const { return sequence_parallel ? tokens / tp : tokens; }
  /// The shape of a tensor that has this many tokens with this many elements each: [s, b, width].
  std::vector<std::int64_t> shape_of(std::int64_t all_tokens, std::int64_t width) const {
    return {all_tokens / micro_batch_size, micro_batch_size, width};
  }
};

/// Parts of a layer, which give back what they kept in the reverse order; shared experts after the others.
enum class LayerPart { attention, mlp_norm, mlp, experts };  // shared experts are the MLP of their layer

/// A row of the table above. Where it is one tensor, it has a shape, from which its bytes follow.
struct SavedTensor {
  const char* name;
  std::int64_t bytes;
  const char* module;  // the module that computes it again; "" where none does
  LayerPart part;
  std::vector<std::int64_t> shape = {};  // empty: several tensors, or a small one
};

/// Returns all tensors of a layer, those that are computed again among them.
std::vector<SavedTensor> saved_tensors(const ActivationShape& shape, bool has_experts);

/// Returns the bytes that one layer keeps of one microbatch on one rank, without full recomputation.
std::int64_t layer_activation_bytes(const ActivationShape& shape, bool has_experts = false);

/// Returns the bytes of a layer that selective recomputation computes again in its backward step.
std::int64_t recomputed_bytes(const ActivationShape& shape, bool has_experts = false);

/// The bytes that a part of a layer keeps, and those that it computes again.
struct PartBytes {
  std::int64_t kept = 0, recomputed = 0;
};
PartBytes part_bytes(const ActivationShape& shape, bool has_experts, LayerPart part);

/// Returns the bytes of the scores of attention of all heads of a rank.
std::int64_t score_bytes(const ActivationShape& shape);

/// Returns the rows that the experts of a rank compute, r.
std::int64_t rows_of_experts(const ActivationShape& shape);

}  // namespace verify
