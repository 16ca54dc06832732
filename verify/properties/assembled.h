#pragma once

/// The whole of a published tensor, put together from the parts that the ranks of the first replica hold, as
/// its placement says.
///
/// Shapes  a vector is one row; a tensor of more than two dimensions is a matrix whose rows are its last
///         dimension.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/world/simulate.h"
#include "verify/cases/case.h"

namespace verify {

// Whether an element of the field has a value. One without a value is no number: all of its levels are
// retired.

inline bool has_value(const sim::Field& x) {
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (x.is_live(level)) return true;
  }
  return false;
}

template <typename Value>  // sim::Field, or double for every float
struct Assembled {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::vector<Value> values;
  /// By part: the rank that holds it. It is empty if all ranks hold the whole, or a part is a sum over ranks.
  std::vector<int> holders;
  bool is_cut_by_rows = false;
  std::int64_t block = 1;  // rows or columns of a part that are next to each other

  /// Returns the place of element i in words, such as "output(1, 2) on rank 3".
  std::string where(const std::string& name, std::size_t i) const;
};

/// The rows and columns of a tensor as a matrix.
struct Extent {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  bool operator==(const Extent&) const = default;
};
Extent extent_of(const sim::Shape& shape);

/// Returns where each element of a rank's part lies in the whole tensor. `place` is the part.
std::vector<std::size_t> places_in_whole(const CaseOutput& output, const Extent& part, int place, int parts);

/// Returns the whole of a tensor that check_outputs() accepts. Where the parts of a
/// replicated tensor are copies of the whole, `copy` says which of them is returned.
template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output, int tp, int copy = 0);

/// Returns the elements of a published tensor.
template <typename Value>
std::vector<Value> values_of(const sim::Published& tensor);

// Compares what a run published with what its case declares. A run can be judged only if each rank published
// its part of every declared tensor once, in the dtype of the case, if the parts fit together, and if
// nothing else was published, because it would not be judged.
//
// Exact   declared tensors are checked first, in the order of outputs(), then other published tensors, in
//         the order of ranks and names. The first difference is returned.

/// Returns why an output of a run cannot be put together; "" if all can be. `dtype` is that of the case's
/// setting. A tensor has this dtype, or that of its sums.
std::string check_outputs(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                          sim::DType dtype);

/// Returns why a run cannot be judged: the same, or a published tensor that no property would judge; "" if it
/// can be.
std::string check_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                            sim::DType dtype);

}  // namespace verify
