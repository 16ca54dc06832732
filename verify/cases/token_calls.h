#pragma once

/// The calls of the layers that process tokens, in closed form: linear layers, a transformer layer that
/// consists of them, the embedding and the loss.
///
/// Shapes  `all` is T H, the number of elements of a whole [T, H] tensor. With sequence_parallel each of the
///         tp ranks has 1/tp of it between layers.
/// Calls   each function appends the calls of one pass to a list; a group of one rank makes none.

#include <cstdint>
#include <vector>

#include "verify/cases/expected_call.h"

namespace verify {

struct TokenCalls {
  std::int64_t all = 0;
  int tp = 1;
  bool sequence_parallel = false;

  void column_forward(std::vector<ExpectedCall>& calls) const;
  void column_backward(std::vector<ExpectedCall>& calls) const;
  /// The calls of a row-parallel layer whose input is parallel.
  void row_forward(std::vector<ExpectedCall>& calls) const;
  void row_backward(std::vector<ExpectedCall>& calls) const;
  /// The calls of a transformer layer: attention, whose number of query groups is a multiple of tp, and MLP.
  /// Each of them has a column-parallel and a row-parallel linear layer.
  void layer_forward(std::vector<ExpectedCall>& calls) const;
  void layer_backward(std::vector<ExpectedCall>& calls) const;
  void embedding_forward(std::vector<ExpectedCall>& calls) const;
  void embedding_backward(std::vector<ExpectedCall>& calls) const;

 private:
  void add(std::vector<ExpectedCall>& calls, const char* site, sim::Operation operation) const;
};

/// Appends the calls of the forward pass of vocab-parallel cross-entropy: for each token the largest logit,
/// and the sums. The backward pass makes no calls.
void loss_calls(std::int64_t tokens, bool has_smoothing, int tp, std::vector<ExpectedCall>& calls);

/// Appends the all-reduce of a gradient that each rank computes from its own tokens only.
void sequence_parallel_sum(std::int64_t elements, int tp, std::vector<ExpectedCall>& calls);

}  // namespace verify
