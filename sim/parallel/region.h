#pragma once

/// What mappings are made of: one collective on the rows or the columns of a matrix, with the copies that put
/// blocks in their places.
///
/// Shapes  x [T, F]. Rows of place p are p T/tp, ...; columns of place p are p F/tp, ...
/// Errors  partition, when rows or columns to be cut do not divide by tp.
/// Exact   a group of one copies nothing.

#include "sim/comm/communicator.h"

namespace sim {

Tensor all_reduced(const Tensor& x, Communicator& tp, Site site);
Tensor own_rows(const Tensor& x, const Communicator& tp);
Tensor own_columns(const Tensor& x, const Communicator& tp);
Tensor gathered_rows(const Tensor& x, Communicator& tp, Site site);
Tensor gathered_columns(const Tensor& x, Communicator& tp, Site site);
Tensor reduce_scattered_rows(const Tensor& x, Communicator& tp, Site site);
Tensor reduce_scattered_columns(const Tensor& x, Communicator& tp, Site site);
/// [T/tp, F] to [T, F/tp], and back.
Tensor rows_to_columns(const Tensor& x, Communicator& tp, Site site);
Tensor columns_to_rows(const Tensor& x, Communicator& tp, Site site);

/// Empty tensors for the outputs of started collectives.
Tensor room_for_gathered_rows(const Tensor& x, const Communicator& tp);
Tensor room_for_own_rows(const Tensor& x, const Communicator& tp);

}  // namespace sim
