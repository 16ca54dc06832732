#pragma once

/// The calls of what a model does to its tokens, in closed form: linear layers, a transformer layer of them,
/// embedding and loss.
///
/// Shapes  all: T H, the elements of a whole [T, H]; with sequence_parallel each of tp ranks has 1/tp of it
///         between layers.
/// Calls   each function adds those of one pass to a list; none in a group of one.

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
  /// Of one whose input is parallel.
  void row_forward(std::vector<ExpectedCall>& calls) const;
  void row_backward(std::vector<ExpectedCall>& calls) const;
  /// Attention, whose query groups divide by tp, and MLP: a column-parallel layer and a row-parallel one
  /// each.
  void layer_forward(std::vector<ExpectedCall>& calls) const;
  void layer_backward(std::vector<ExpectedCall>& calls) const;
  void embedding_forward(std::vector<ExpectedCall>& calls) const;
  void embedding_backward(std::vector<ExpectedCall>& calls) const;

 private:
  void add(std::vector<ExpectedCall>& calls, const char* site, sim::Operation operation) const;
};

/// Of vocab-parallel cross-entropy forward: of each token the largest logit, and sums; backward has none.
void loss_calls(std::int64_t tokens, bool has_smoothing, int tp, std::vector<ExpectedCall>& calls);

/// Of the gradients that each rank has of its tokens.
void sequence_parallel_sum(std::int64_t elements, int tp, std::vector<ExpectedCall>& calls);

}  // namespace verify
