#pragma once

/// What adds, takes and puts whole rows and columns. The last dimension is a row; those before it are counted
/// together.
///
/// Errors  bad_columns: a range beyond the columns; those of checks.h.

#include "sim/tensor/tensor.h"

namespace sim {

/// x(t, f) + bias(f), with bias [F].
Tensor add_bias(const Tensor& x, const Tensor& bias);
/// sums(f) += x(0, f), x(1, f), ...; sums is f32 where x is bf16.
void add_column_sums(const Tensor& x, Tensor& sums);

/// Columns begin to begin + count - 1, as a tensor of its own.
Tensor columns(const Tensor& x, std::int64_t begin, std::int64_t count);
/// Writes x into columns begin, begin + 1, ... of out.
void put_columns(const Tensor& x, Tensor& out, std::int64_t begin);

/// table(ids(t) - first_id) for each of the ids [..]: [.., H]; 0 for ids beyond the table.
Tensor lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id);
/// sums(ids(t) - first_id) += rows(t), t = 0, 1, 2, ...; ids beyond the table are left out.
void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& sums);

}  // namespace sim
