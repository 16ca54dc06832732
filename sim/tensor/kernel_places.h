#pragma once

/// Which rows and columns a kernel works on, for the kernels of every device.

#include <cstdint>

#include "sim/base/host_device.h"
#include "sim/tensor/kernel_parameters.h"

namespace sim {

/// Columns first to end - 1 of a row.
struct ColumnRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  SIM_HOST_DEVICE bool has(std::int64_t column) const { return column >= first && column < end; }
};

/// Returns which columns the query of a row sees, in scores [.., queries, columns].
SIM_HOST_DEVICE inline ColumnRange seen_columns(std::int64_t row, const SeenKeys& keys, std::int64_t queries,
                                                std::int64_t columns) {
  if (!keys.causal) return {0, columns};
  const std::int64_t place = row % queries + columns - queries;
  const std::int64_t end = place < 0 ? 0 : (place >= columns ? columns : place + 1);
  const std::int64_t first = keys.window < 0 || place < keys.window ? 0 : place - keys.window;
  return {first > end ? end : first, end};
}

/// Returns the row of a table that an id names, or -1 if the id is outside of the table.
SIM_HOST_DEVICE inline std::int64_t row_of(std::int32_t id, std::int64_t first_id, std::int64_t rows) {
  const std::int64_t row = id - first_id;
  return row >= 0 && row < rows ? row : -1;
}

/// Returns the column of a target on this rank, or -1 if this rank does not hold it or the target is ignored.
SIM_HOST_DEVICE inline std::int64_t column_of(std::int32_t target, const TokenLoss& loss) {
  const std::int64_t column = target - loss.first_id;
  return target != loss.ignored_id && column >= 0 && column < loss.columns ? column : -1;
}

}  // namespace sim
