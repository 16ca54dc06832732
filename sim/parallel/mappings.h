#pragma once

/// The operators between regions of a tensor-parallel layer, each with its conjugate: what forward does to a
/// tensor, and what backward does to its gradient. In a group of one, all of them are the identity.
///
///   operator                                  forward                  backward
///   kCopyToTensorModelParallelRegion          identity                 all_reduce(sum)
///   kReduceFromTensorModelParallelRegion      all_reduce(sum)          identity
///   kScatterToTensorModelParallelRegion       own columns              all_gather of columns
///   kGatherFromTensorModelParallelRegion      all_gather of columns    own columns (no sum: every rank has
///                                             one gradient)
///   kScatterToSequenceParallelRegion          own rows                 all_gather of rows
///   kGatherFromSequenceParallelRegion         all_gather of rows       reduce_scatter of rows
///   kReduceScatterToSequenceParallelRegion    reduce_scatter of rows   all_gather of rows
///   kAllGatherLastDim                         all_gather of columns    reduce_scatter of columns
///   kReduceScatterLastDim                     reduce_scatter of cols.  all_gather of columns
///   kAllToAllSequenceToHidden                 [T/tp, H] to [T, H/tp]   [T, H/tp] to [T/tp, H]
///   kAllToAllHiddenToSequence                 [T, H/tp] to [T/tp, H]   [T/tp, H] to [T, H/tp]
///
/// Shapes  x [T, F]: T tokens are rows, in the order of the sequence; F features are columns.
/// Calls   the collective that the table names, at the given site.
/// Errors  partition, when the rows or columns to be cut are not a multiple of tp.
/// Exact   sums are in the reduction order of the group; all other operators only move values.
/// Source  Megatron-LM, tensor_parallel/mappings.py.

#include "sim/comm/communicator.h"
#include "sim/parallel/region.h"

namespace sim {

/// What an operator does to a tensor, and what its conjugate does to the gradient.
struct Mapping {
  Tensor (*forward)(const Tensor& x, Communicator& tp, Site site);
  Tensor (*backward)(const Tensor& grad, Communicator& tp, Site site);
};

namespace mapping_parts {

/// The directions of mappings that communicate nothing.
inline Tensor identity(const Tensor& x, Communicator&, Site) { return x; }
inline Tensor cut_rows(const Tensor& x, Communicator& tp, Site) { return own_rows(x, tp); }
inline Tensor cut_columns(const Tensor& x, Communicator& tp, Site) { return own_columns(x, tp); }

}  // namespace mapping_parts

inline constexpr Mapping kCopyToTensorModelParallelRegion = {mapping_parts::identity, all_reduced};
inline constexpr Mapping kReduceFromTensorModelParallelRegion = {all_reduced, mapping_parts::identity};
inline constexpr Mapping kScatterToTensorModelParallelRegion = {mapping_parts::cut_columns, gathered_columns};
inline constexpr Mapping kGatherFromTensorModelParallelRegion = {gathered_columns,
                                                                 mapping_parts::cut_columns};
inline constexpr Mapping kScatterToSequenceParallelRegion = {mapping_parts::cut_rows, gathered_rows};
inline constexpr Mapping kGatherFromSequenceParallelRegion = {gathered_rows, reduce_scattered_rows};
inline constexpr Mapping kReduceScatterToSequenceParallelRegion = {reduce_scattered_rows, gathered_rows};
inline constexpr Mapping kAllGatherLastDim = {gathered_columns, reduce_scattered_columns};
inline constexpr Mapping kReduceScatterLastDim = {reduce_scattered_columns, gathered_columns};
inline constexpr Mapping kAllToAllSequenceToHidden = {rows_to_columns, columns_to_rows};
inline constexpr Mapping kAllToAllHiddenToSequence = {columns_to_rows, rows_to_columns};

}  // namespace sim
