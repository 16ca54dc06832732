#pragma once

/// Operations that add, take and put whole rows and columns. The last dimension is a row; the dimensions
/// before it are counted together as the number of rows.
///
/// Errors  bad_columns: a range that exceeds the columns; those of checks.h.

#include "sim/tensor/tensor.h"

namespace sim {

/// Returns x(t, f) + bias(f), with bias [F].
Tensor add_bias(const Tensor& x, const Tensor& bias);
/// Adds x(0, f), x(1, f), ... to sums(f); sums is f32 if x is bf16.
void add_column_sums(const Tensor& x, Tensor& sums);

/// Returns columns begin to begin + count - 1 as a new tensor.
Tensor columns(const Tensor& x, std::int64_t begin, std::int64_t count);
/// Writes x into columns begin, begin + 1, ... of out.
void put_columns(const Tensor& x, Tensor& out, std::int64_t begin);

/// Returns table(ids(t) - first_id) for each of the ids [..], as a tensor [.., H]. Ids outside of the
/// table give 0.
Tensor lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id);
/// Adds rows(t) to sums(ids(t) - first_id) for t = 0, 1, 2, ... Ids outside of the table are skipped.
void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& sums);

}  // namespace sim
