#pragma once

/// Tied embeddings across stages: the word embedding of the first stage and its copy in the output layer of
/// the last stage are one weight on two ranks.
///
/// Shapes  [V/tp, H] on both.
/// Calls   tie_embeddings, once: one all_reduce(sum) of [V/tp, H] over embd; the copy is zeros before.
///         all_reduce_embedding_grads, in each step after the data-parallel reduction: one all_reduce(sum) of
///         the gradient. None on the ranks between, in a pipeline of one rank, or if weights are untied.
/// Exact   Both ranks begin with the same value and step by the same gradient, so their values stay the
///         same. With ZeRO-1 the weight has its own bucket, so that each data-parallel rank owns the same
///         part of it on both stages.
/// Source  Megatron-LM, setup_embeddings_and_output_layer and _allreduce_word_embedding_grads.

#include <deque>

#include "sim/model/gpt_model.h"

namespace sim {

void tie_embeddings(Rank& rank, std::deque<GptModel>& chunks);
void all_reduce_embedding_grads(Rank& rank, std::deque<GptModel>& chunks);

}  // namespace sim
