#pragma once

/// The kinds of core attention.

#include "sim/context/core_attention.h"

namespace sim::context_attentions {

/// The ranks that hold a sequence, and how it is cut over them.
struct ContextRanks {
  Communicator& group;
  SequenceCut cut;
};

/// Returns room for the context of all queries. With padding it holds zeros, because no block writes there.
Tensor room_for_context(const Tensor& queries, const Tensor& values, DType dtype, bool has_padding);

/// Attention on one rank, which has the whole sequence. It keeps the probabilities.
std::unique_ptr<CoreAttention> dense(Rank& rank, const CoreAttentionConfig& config, const SequenceCut& cut);
std::unique_ptr<CoreAttention> ring(const CoreAttentionConfig& config, const ContextRanks& ranks);
std::unique_ptr<CoreAttention> all_gather(const CoreAttentionConfig& config, const ContextRanks& ranks);
/// Exchanges parts of the sequence for heads inside `exchange`, a group of adjacent ranks, and attends with
/// `inner`, which sees the rows of all of them as one rank of `inner_cut`. `place` is this rank's place among
/// the ranks of `cut`.
std::unique_ptr<CoreAttention> all_to_all(const SequenceCut& cut, int place, Communicator& exchange,
                                          const SequenceCut& inner_cut, std::unique_ptr<CoreAttention> inner);

}  // namespace sim::context_attentions
