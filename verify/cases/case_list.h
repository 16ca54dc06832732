#pragma once

/// The cases of this project: the functions that make them, and the list of all of them.
///
/// Calls   a new case needs a file with a class, a function declared here, and a row in case_list.cpp.

#include <memory>
#include <string>
#include <vector>

namespace verify {

class Case;
using CaseList = std::vector<std::unique_ptr<Case>>;

/// Every case of this project, in the order of the table in case_list.cpp. A program of another project has
/// its own list (verify/prove.h).
const CaseList& all_cases();
/// Returns the case of all_cases() with this name, or null if there is none.
const Case* find_case(const std::string& name);

/// The mapping operators. Each moves, sums or cuts a whole tensor, and its conjugate does so with the
/// gradient.
CaseList mapping_cases();
/// The exchange of tokens of a layer with experts: every rank sends as many rows to every other as are drawn.
std::unique_ptr<Case> all_to_all_uneven_case();
/// ColumnParallelLinear and RowParallelLinear, forward and backward, with every flag they have.
std::unique_ptr<Case> column_parallel_linear_case();
std::unique_ptr<Case> row_parallel_linear_case();
/// VocabParallelEmbedding and VocabParallelCrossEntropy, forward and backward.
std::unique_ptr<Case> vocab_parallel_embedding_case();
std::unique_ptr<Case> vocab_parallel_cross_entropy_case();
/// The two ends of a model: an embedding, and an output layer that shares its weight.
std::unique_ptr<Case> tied_embedding_case();
/// ParallelNorm, forward and backward, with and without sequence parallelism.
std::unique_ptr<Case> parallel_norm_case();
/// ParallelDropout in replicated and in sharded regions.
std::unique_ptr<Case> parallel_dropout_case();
/// The MLP of a transformer layer, forward and backward: plain and gated, with each activation.
std::unique_ptr<Case> mlp_case();
/// A batch that is cut over context-parallel ranks: tokens, labels, loss mask and positions, of a sequence
/// and of packed documents.
std::unique_ptr<Case> cp_batch_case();
/// TopKRouter, forward and backward: the choice of experts, dropping, z-loss and expert bias.
std::unique_ptr<Case> moe_router_case();
/// The auxiliary losses of a router over the microbatches of a step: their values, and their gradients.
std::unique_ptr<Case> moe_aux_loss_case();
/// Tokens that are dispatched to experts and combined again, by each dispatcher and with drawn routing.
std::unique_ptr<Case> token_dispatcher_case();
/// A layer of experts, forward and backward: router, dispatcher, experts and shared experts.
std::unique_ptr<Case> moe_layer_case();
/// Self-attention, forward and backward: with separate heads, with grouped queries, and with fewer query
/// groups than ranks; causal, with a window of tokens or without, or not causal; with rotary positions or
/// without.
std::unique_ptr<Case> self_attention_case();
/// Multi-head latent attention, forward and backward: with and without a latent state of queries, and with
/// and without norms of latent states.
std::unique_ptr<Case> multi_latent_attention_case();
/// The attention of a context-parallel group, forward and backward: around a ring, with gathered keys, with
/// exchanged heads, and hierarchical; in documents with padding, causal or not, with a window of tokens or
/// without, with grouped queries.
std::unique_ptr<Case> cp_attention_case();
/// A whole transformer layer, forward and backward, with the gradient of every parameter.
std::unique_ptr<Case> transformer_layer_case();
/// Data-parallel training, with the distributed optimizer (ZeRO-1) and without it.
std::unique_ptr<Case> distributed_optimizer_case();
/// The training of a GPT on tp x pp x dp ranks: whole steps, from tokens to updated parameters.
std::unique_ptr<Case> gpt_training_case();
/// The same, of a model that has layers with experts.
std::unique_ptr<Case> moe_training_case();
/// The same, dense or with experts, with sequences that are cut over context-parallel ranks.
std::unique_ptr<Case> cp_training_case();

}  // namespace verify
