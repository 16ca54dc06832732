#pragma once

/// The order of scores on the host, where choices are made: the experts of a token, the groups of experts,
/// the tokens that an expert keeps.
///
/// Shapes  scores [R, C]; an element is named by its number in the tensor.
/// Calls   none. The copy to the host waits for the device, as Megatron's choices do when they size a
///         message.
/// Errors  those of checks.h.
/// Exact   Floats are ordered by value, and NaN is below all numbers. The field has no order, and the
///         arbitrary one of max() stands in for it. Of equal elements the one that is listed first is taken:
///         the lowest expert, the lowest token.
/// Source  torch.topk, which does not say which of equal elements it takes.

#include <cstdint>
#include <vector>

#include "sim/tensor/tensor.h"

namespace sim {

class HostScores {
 public:
  explicit HostScores(const Tensor& scores);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool is_larger(std::int64_t a, std::int64_t b) const;

  /// Returns `count` of the candidates, or all if there are fewer: the largest first.
  std::vector<std::int64_t> largest(std::vector<std::int64_t> candidates, std::int64_t count) const;

  /// Cuts each row into groups of neighbours and returns the scores [R, groups]: the sum of the `best`
  /// largest elements of each group. Floats are added in f64.
  HostScores group_scores(std::int64_t groups, std::int64_t best) const;

 private:
  HostScores() = default;

  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  bool is_field_ = false;
  std::vector<double> floats_;   // the scores, if they are floats
  std::vector<Field> elements_;  // and if they are elements of the field
};

}  // namespace sim
