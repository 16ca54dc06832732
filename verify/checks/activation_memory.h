#pragma once

/// The activation memory of a published model: the bytes that a layer keeps from the forward pass for the
/// backward pass, and the most that a pipeline rank holds at any time of its schedule.
///
/// Shapes  All sizes are bytes of bf16 activations; in fp32 all but masks and logits are twice as large.
///         n is the number of tokens of a microbatch on a rank;
///         H, F, heads and G are as in parameter_count.h. On every tensor-parallel rank a layer keeps 10
///         H n bytes (with sequence parallelism a tp-th of them): the inputs of two norms, of QKV and of
///         the MLP, and one byte for each element of two dropout masks. Split over tp, it keeps Q, K and
///         V, the output of attention, and the MLP before and after its activation. With recomputation a
///         layer keeps only its input, and one layer at a time keeps all the rest. The chunk of the
///         embedding also keeps a dropout mask; the chunk of the output keeps two inputs of width H, and
///         logits in f32 for the loss.
///         A layer with experts keeps, in place of an MLP before and after its activation, the logits of the
///         router in f32; of every row that its experts compute the input, and the inside before and after
///         the activation, cut over etp; and the same of the shared experts, cut over tp. The rows are
///         those of a router that spreads tokens evenly: k T etp for T tokens of a rank, bounded or padded
///         by the capacity. Another routing gives a rank other rows.
/// Exact   Scores of attention are not kept, because selective recomputation and flash kernels compute them
///         again. With F = 4 H, no gate and as many groups as heads, a layer keeps H n (10 + 24 / tp)
///         bytes, and 34 H n / tp bytes with sequence parallelism.
/// Source  Korthikanti et al. 2022, sections 4 and 4.3 (equations 2 and 4, without their scores).

#include <cstdint>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/pipeline/schedules.h"
#include "verify/checks/parameter_count.h"

namespace verify {

struct ActivationShape {
  ModelShape model;
  std::int64_t padded_vocab_size = 0;
  std::int64_t tokens = 0;         // n
  std::int64_t element_bytes = 2;  // of an activation
  int tp = 1, etp = 1;
  bool sequence_parallel = false;
  bool recompute = false;
};

/// Whether the bytes that a rank may hold can be counted exactly: they are at most 2^53.
bool can_be_counted(const ActivationShape& shape, const sim::PipelineShape& pipeline);

/// Returns the bytes that one layer keeps of one microbatch on one rank, without recomputation.
std::int64_t layer_activation_bytes(const ActivationShape& shape, bool has_experts = false);

/// Returns the most bytes that each pipeline rank holds at any time. The placement must have the chunks of
/// `pipeline`.
std::vector<std::int64_t> activation_bytes(const ActivationShape& shape, const sim::LayerPlacement& placement,
                                           sim::ScheduleFunction schedule,
                                           const sim::PipelineShape& pipeline);

}  // namespace verify
