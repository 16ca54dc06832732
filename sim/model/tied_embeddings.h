#pragma once

/// The word embedding of the first stage, and its copy in the output layer of the last: one weight on two
/// ranks.
///
/// Shapes  [V/tp, H] on both.
/// Calls   tie: once, one all_reduce(sum) of [V/tp, H] over embd; the copy is zeros before. all_reduce_grads:
///         in each step after the data-parallel reduction, one of the gradient. None for ranks between, in a
///         pipeline of one, or where weights are untied.
/// Exact   both ranks step by the same gradient from the same value, and so go on having the same. With
///         ZeRO-1 the weight has a bucket of its own, so that each data-parallel rank owns the same part of
///         it on both stages.
/// Source  Megatron-LM, setup_embeddings_and_output_layer and _allreduce_word_embedding_grads.

#include <deque>

#include "sim/model/gpt_model.h"

namespace sim {

void tie_embeddings(Rank& rank, std::deque<GptModel>& chunks);
void all_reduce_embedding_grads(Rank& rank, std::deque<GptModel>& chunks);

}  // namespace sim
