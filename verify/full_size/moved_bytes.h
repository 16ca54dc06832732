#pragma once

/// The bytes that kernels without matrix products move between a GPU and its memory, in closed form: norms,
/// residual sums, rotary embeddings, activations, the softmax, the order of experts' rows, and the loss.
///
/// Shapes  bytes of one microbatch and one layer, or the output, forward. Backward moves twice as
///         much: it reads the gradient and what was kept, and writes a gradient. t are the tokens of a rank
///         of cp, h of them those of a rank of tp between its layers, e the bytes of an element.
///           norms and residual sums     10 e H h
///           rotary embedding, attention 4 e (heads + groups) d t / tp
///           scores that are kept         6 e heads S t / tp
///           activation                  3 e F t / tp with a gate, 2 e F t / tp without one
///           experts                     4 e H k h to order rows, and their activation
///           loss                        20 V t / tp: a cast, a maximum, exponents and a sum in fp32
/// Exact   They are an estimate of what fused kernels read and write once each, and no bound. What products
///         themselves move is hidden behind their multiply-adds.

#include <cstdint>

#include "verify/requests/scenario_request.h"

namespace verify {

std::int64_t moved_bytes_of_layer(const ScenarioRequest& request, bool has_experts);
std::int64_t moved_bytes_of_output(const ScenarioRequest& request);

}  // namespace verify
