#pragma once

/// The operators between regions of a tensor-parallel layer, each with its conjugate: what forward does to a
/// tensor, and what backward does to its gradient. In a group of one, all of them are the identity.
///
///   operator                                  forward                  backward
///   CopyToTensorModelParallelRegion           identity                 all_reduce(sum)
///   ReduceFromTensorModelParallelRegion       all_reduce(sum)          identity
///   ScatterToTensorModelParallelRegion        own columns              all_gather of columns
///   GatherFromTensorModelParallelRegion       all_gather of columns    own columns (no sum: every rank has
///                                             one gradient)
///   ScatterToSequenceParallelRegion           own rows                 all_gather of rows
///   GatherFromSequenceParallelRegion          all_gather of rows       reduce_scatter of rows
///   ReduceScatterToSequenceParallelRegion     reduce_scatter of rows   all_gather of rows
///   AllGatherLastDim                          all_gather of columns    reduce_scatter of columns
///   ReduceScatterLastDim                      reduce_scatter of cols.  all_gather of columns
///   AllToAllSequenceToHidden                  [T/tp, H] to [T, H/tp]   the other
///   AllToAllHiddenToSequence                  [T, H/tp] to [T/tp, H]   the other
///
/// Shapes  x [T, F]: T tokens are rows, in the order of the sequence; F features are columns.
/// Calls   one collective on the side where one stands, at the site given.
/// Errors  partition, when rows or columns to be cut do not divide by tp.
/// Exact   a sum is in the group's reduction order; all else moves values.
/// Source  Megatron-LM, tensor_parallel/mappings.py.

#include "sim/comm/communicator.h"

namespace sim {

struct CopyToTensorModelParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct ReduceFromTensorModelParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct ScatterToTensorModelParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct GatherFromTensorModelParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct ScatterToSequenceParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct GatherFromSequenceParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct ReduceScatterToSequenceParallelRegion {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct AllGatherLastDim {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct ReduceScatterLastDim {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct AllToAllSequenceToHidden {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};
struct AllToAllHiddenToSequence {
  static Tensor forward(const Tensor& x, Communicator& tp, Site site);
  static Tensor backward(const Tensor& grad, Communicator& tp, Site site);
};

}  // namespace sim
