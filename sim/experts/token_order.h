#pragma once

/// The rows that a dispatcher sends or computes on, by number. A row stands for a token and one expert that was
/// chosen for it.
///
/// Shapes  map [T, E]; rows are ordered by expert and then by token. The entry of a row is the place t E + e of
///         its probability in [T, E].

#include <cstdint>
#include <vector>

#include "sim/experts/routing_map.h"
#include "sim/tensor/tensor.h"

namespace sim {

struct ExpertOrder {
  std::vector<std::int64_t> tokens;     // of each row
  std::vector<std::int64_t> entries;    // of each row
  std::vector<std::int64_t> of_expert;  // the number of rows of each expert
};

/// Returns the rows of experts first to first + count - 1.
ExpertOrder expert_order(const RoutingMap& map, std::int64_t first, std::int64_t count);

/// Returns element entries[i] of a matrix as row i, [R, 1].
Tensor taken_entries(const Tensor& matrix, const std::vector<std::int64_t>& entries);
/// Returns a matrix [rows, columns] that has element i of `values` [R, 1] at place entries[i], added where
/// places are the same, and 0 elsewhere.
Tensor added_entries(const Tensor& values, const std::vector<std::int64_t>& entries, std::int64_t rows,
                     std::int64_t columns);

/// Returns the permutation that undoes `order`: where order takes row order[i] as row i, it takes row i as row
/// order[i].
std::vector<std::int64_t> inverse_of(const std::vector<std::int64_t>& order);

}  // namespace sim
