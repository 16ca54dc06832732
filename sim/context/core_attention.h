#pragma once

/// The attention of some heads over a sequence whose rows lie on the ranks of a context-parallel group. Each
/// document of the sequence attends to itself alone.
///
/// Shapes  queries [B, n, S/cp, d], keys [B, g, S/cp, d], values [B, g, S/cp, dv], rows as SequenceCut has
///         them; the context [B, n, S/cp, dv]. n is a multiple of g, and each group of n / g query heads
///         shares one head of keys and values.
/// Calls   with more than one rank, where K and V are the elements of keys and values of one rank, Q those
///         of queries, O those of the context:
///         - p2p: forward, cp - 1 batches that send K + V to the next rank and receive as much from the one
///           before; backward, cp batches the other way, of K + V, cp - 2 times 2 (K + V), and K + V;
///         - all_gather: an all_gather of K and one of V, in backward both again, and a reduce_scatter to K
///           and one to V;
///         - a2a: forward, an all_to_all each of Q, K, V, and O; backward of O, Q, K, V;
///         - a2a+p2p: the calls of a2a over hcp-L0, and those of p2p over hcp-L1 with the same K + V. Where
///           one of the groups has one rank, those of the other kind alone.
/// Errors  cp_heads: heads, or groups of them, that are no multiple of the ranks that exchange them;
///         cp_dropout: dropout on several ranks; cp_window: a window around a ring; cp_packed_sequence:
///         chunks that cross borders of documents with p2p or all_gather; those of checks.h.
/// Exact   all_gather and a2a give each query the bits of one rank in forward; a2a also in backward, per
///         head. The ring adds in an order that differs from rank to rank. Rows of padding have a context of
///         0, and no row attends to them.
/// Source  TransformerEngine, context_parallel.py; Liu et al. 2023 (ring); Jacobs et al. 2023 (Ulysses).

#include <memory>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/context/cp_comm_type.h"
#include "sim/context/sequence_cut.h"

namespace sim {

struct CoreAttentionConfig {
  std::string name;  // such as "self_attention.core_attention"
  SeenKeys keys = {.causal = true};
  Ratio dropout = {0, 1};  // of attention probabilities; each rank draws masks for its own heads
};

class CoreAttention {
 public:
  virtual ~CoreAttention() = default;

  struct Saved {
    Tensor queries;
    Tensor keys;
    Tensor values;
    Tensor context;
    std::vector<Tensor> probabilities;  // before dropout, of each block of attention on one rank
    Tensor stats;                       // p2p: of the softmax over all keys, [2, B n S/cp]
    Tensor received;                    // p2p: keys and values of the next rank
    std::uint64_t pass = 0;
  };
  struct Forward {
    Tensor context;
    Saved saved;
  };
  struct Gradients {
    Tensor queries;
    Tensor keys;
    Tensor values;
  };
  /// Each `pass` draws its own dropout masks.
  virtual Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                          std::uint64_t pass) = 0;
  virtual Gradients backward(const Saved& saved, const Tensor& grad_context) = 0;
};

/// Makes the attention of this rank over its context-parallel group, which has as many ranks as the cut.
std::unique_ptr<CoreAttention> make_core_attention(Rank& rank, const CoreAttentionConfig& config,
                                                   const SequenceCut& cut, CpCommType type);

}  // namespace sim
