#pragma once

/// How far a value may be from that of the reference.
///
/// Exact   in f64 an element is right if it differs by at most 2^-30 of the largest element of its tensor
///         (2^22 roundings, the worst that a sum of as many terms can do), and 2^-43 of the largest of all
///         tensors of its kind in the step. A gradient that is zero but for rounding, such as that of the
///         bias of keys, has the second part alone; a value that the program names has the first alone. In
///         f32 these are 2^-10 and 2^-18, in f16 2^-6 and 2^-12, in bf16 2^-3 and 2^-9. All are chosen.
///         With a twin, the reference with other roundings, an element may differ by 16 times the largest
///         error of the twin in the tensor, and by 16 times the median of the relative errors of tensors like
///         it in the step: parameters, values that the program names, states of one name, and all else. It is
///         no less than in f64. A step in which the twin has no error is judged without it. The 16 is chosen.
///         States of one name are a kind. Sums of squares of gradients, such as exp_avg_sq, are judged by
///         their roots. Such a root is the length of a vector of gradients, so its error is at most the
///         length of their errors. If roots of at most r may differ by B, then squares by B (2 r + B).

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/tensor/dtype.h"
#include "verify/run/global_values.h"

namespace verify {

/// By what values are judged.
struct JudgedBy {
  sim::DType coarsest = sim::DType::f64;  // of what was computed
  const GlobalValues* twin = nullptr;
};

class ValueBounds {
 public:
  ValueBounds(const GlobalValues& reference, const JudgedBy& judged);
  /// Returns the bound of a value of the reference with this largest element.
  double of(const ValueKey& key, double largest) const;
  /// Returns why the errors of the twin are no roundings; "" if they may be.
  const std::string& objection() const { return objection_; }

 private:
  using Pool = std::tuple<std::int64_t, PublishedKind, std::string>;  // a step, and tensors that are alike
  static Pool pool_of(const ValueKey& key);
  void take_typical(const Pool& pool, double typical);
  double bound_of(const ValueKey& key, double largest) const;

  sim::DType coarsest_;
  std::map<Pool, double> largest_;     // of all values of a kind in a step
  std::map<ValueKey, double> errors_;  // of the twin
  std::map<Pool, double> typical_;     // the median of those above 0, relative
  std::string objection_;
};

}  // namespace verify
