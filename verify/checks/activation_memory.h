#pragma once

/// What the ranks of a published model keep of the forward pass for the backward one: bytes of a layer, and
/// of a rank where its schedule has most microbatches in flight.
///
/// Shapes  bytes, of bf16 activations. n tokens of a microbatch on a rank, H, F, heads and G as in
///         parameter_count.h. A layer keeps 10 H n that every tensor-parallel rank holds (with sequence
///         parallelism a tp-th of it): the inputs of two norms, of QKV and of the MLP, and a byte each for
///         two dropout masks; and of what is split over tp: Q, K and V, the attention's output, the MLP
///         before and after its activation. Recomputed, it keeps its input, and one layer at a time all the
///         rest. The embedding's chunk keeps a dropout mask; the output's two inputs of H, and logits in f32
///         for the loss.
/// Exact   scores of attention are not kept: recomputed, as selective recomputation and flash kernels do.
///         With F = 4 H, no gate and as many groups as heads a layer is H n (10 + 24 / tp), with sequence
///         parallelism 34 H n / tp.
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
  std::int64_t tokens = 0;  // n
  int tp = 1;
  bool sequence_parallel = false;
  bool recompute = false;
};

/// Whether what a rank may hold fits into a double: 2^53 bytes.
bool can_be_counted(const ActivationShape& shape, const sim::PipelineShape& pipeline);

std::int64_t layer_activation_bytes(const ActivationShape& shape);

/// Of each pipeline rank, where it holds most. Chunks of the placement are those of the pipeline.
std::vector<std::int64_t> activation_bytes(const ActivationShape& shape, const sim::LayerPlacement& placement,
                                           sim::ScheduleFunction schedule,
                                           const sim::PipelineShape& pipeline);

}  // namespace verify
