#pragma once

/// The collectives that mappings.h is built from: each runs one collective on the rows or the columns of a
/// matrix, and copies blocks to their places before or after it.
///
/// Shapes  x [T, F]. The rows of place p are those from p T/tp to below (p + 1) T/tp; its columns are those
///         from p F/tp to below (p + 1) F/tp.
/// Errors  partition, when the rows or columns to be cut are not a multiple of tp.
/// Exact   A group of one copies nothing.

#include "sim/comm/communicator.h"

namespace sim {

Tensor all_reduced(const Tensor& x, Communicator& tp, Site site);
Tensor own_rows(const Tensor& x, const Communicator& tp);
Tensor own_columns(const Tensor& x, const Communicator& tp);
Tensor gathered_rows(const Tensor& x, Communicator& tp, Site site);
Tensor gathered_columns(const Tensor& x, Communicator& tp, Site site);
Tensor reduce_scattered_rows(const Tensor& x, Communicator& tp, Site site);
Tensor reduce_scattered_columns(const Tensor& x, Communicator& tp, Site site);
/// Turns [T/tp, F], this rank's rows, into [T, F/tp], its columns, with an all_to_all.
Tensor rows_to_columns(const Tensor& x, Communicator& tp, Site site);
/// Does the inverse of rows_to_columns.
Tensor columns_to_rows(const Tensor& x, Communicator& tp, Site site);

/// Return uninitialized tensors for the output of an all_gather or reduce_scatter of `x` by rows.
Tensor room_for_gathered_rows(const Tensor& x, const Communicator& tp);
Tensor room_for_own_rows(const Tensor& x, const Communicator& tp);

}  // namespace sim
