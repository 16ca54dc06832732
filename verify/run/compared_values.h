#pragma once

/// A training on a layout, held against the same training on another one, such as one rank: every element
/// that any rank has published, in the order in which a step computes them.
///
/// Exact   in f64 an element is right if it differs by at most 2^-30 of the largest element of its tensor
///         (2^22 roundings, the worst that a sum of as many terms can do), and 2^-43 of the largest of all
///         tensors of its kind in the step. A gradient that is zero but for rounding, such as that of the
///         bias of keys, has the second part alone. In f32 these are 2^-10 and 2^-18, in bf16 2^-3 and 2^-9.
///         All are chosen.
///         With a twin, the reference with other roundings, the bound is 16 times the largest error of the
///         twin in the tensor, or its mean over all tensors of the step, relative to their largest elements.
///         The 16 is chosen; the bound is no less than in f64.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/tensor/dtype.h"
#include "verify/run/global_values.h"

namespace verify {

/// A value that is not what the reference has.
struct WrongValue {
  ValueKey key;
  std::int64_t wrong = 0;  // elements, of which copies on several ranks count once
  std::int64_t elements = 0;
  std::set<int> ranks;  // that hold a wrong element
  std::string what;     // "it is 2 times that of the reference, as many as tp and dp"
};

/// What explanations may name.
struct NamesOfLayout {
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // ("tp", 2); those above 1
  std::vector<sim::GuestGroup> groups;                      // of the program
};

struct ComparedValues {
  std::int64_t values = 0;    // that were compared
  std::int64_t elements = 0;  // of them
  double worst_slack = 0;     // the largest share of its bound that the error of a right element takes
  std::vector<WrongValue> wrong = {};
  std::string incomparable = {};  // why no numbers were compared; "" if they were
  bool holds() const { return wrong.empty() && incomparable.empty() && values > 0; }
};

/// By what values are judged.
struct JudgedBy {
  sim::DType coarsest = sim::DType::f64;  // of what was computed
  const GlobalValues* twin = nullptr;
};

ComparedValues compared_values(const GlobalValues& layout, const GlobalValues& reference,
                               const NamesOfLayout& names, const JudgedBy& judged = {});

}  // namespace verify
