#include "sim/parallel/mappings.h"

#include "sim/parallel/region.h"

namespace sim {

Tensor CopyToTensorModelParallelRegion::forward(const Tensor& x, Communicator&, Site) { return x; }
Tensor CopyToTensorModelParallelRegion::backward(const Tensor& grad, Communicator& tp, Site site) {
  return all_reduced(grad, tp, site);
}

Tensor ReduceFromTensorModelParallelRegion::forward(const Tensor& x, Communicator& tp, Site site) {
  return all_reduced(x, tp, site);
}
Tensor ReduceFromTensorModelParallelRegion::backward(const Tensor& grad, Communicator&, Site) { return grad; }

Tensor ScatterToTensorModelParallelRegion::forward(const Tensor& x, Communicator& tp, Site) {
  return own_columns(x, tp);
}
Tensor ScatterToTensorModelParallelRegion::backward(const Tensor& grad, Communicator& tp, Site site) {
  return gathered_columns(grad, tp, site);
}

Tensor GatherFromTensorModelParallelRegion::forward(const Tensor& x, Communicator& tp, Site site) {
  return gathered_columns(x, tp, site);
}
Tensor GatherFromTensorModelParallelRegion::backward(const Tensor& grad, Communicator& tp, Site) {
  return own_columns(grad, tp);
}

Tensor ScatterToSequenceParallelRegion::forward(const Tensor& x, Communicator& tp, Site) {
  return own_rows(x, tp);
}
Tensor ScatterToSequenceParallelRegion::backward(const Tensor& grad, Communicator& tp, Site site) {
  return gathered_rows(grad, tp, site);
}

Tensor GatherFromSequenceParallelRegion::forward(const Tensor& x, Communicator& tp, Site site) {
  return gathered_rows(x, tp, site);
}
Tensor GatherFromSequenceParallelRegion::backward(const Tensor& grad, Communicator& tp, Site site) {
  return reduce_scattered_rows(grad, tp, site);
}

Tensor ReduceScatterToSequenceParallelRegion::forward(const Tensor& x, Communicator& tp, Site site) {
  return reduce_scattered_rows(x, tp, site);
}
Tensor ReduceScatterToSequenceParallelRegion::backward(const Tensor& grad, Communicator& tp, Site site) {
  return gathered_rows(grad, tp, site);
}

Tensor AllGatherLastDim::forward(const Tensor& x, Communicator& tp, Site site) {
  return gathered_columns(x, tp, site);
}
Tensor AllGatherLastDim::backward(const Tensor& grad, Communicator& tp, Site site) {
  return reduce_scattered_columns(grad, tp, site);
}

Tensor ReduceScatterLastDim::forward(const Tensor& x, Communicator& tp, Site site) {
  return reduce_scattered_columns(x, tp, site);
}
Tensor ReduceScatterLastDim::backward(const Tensor& grad, Communicator& tp, Site site) {
  return gathered_columns(grad, tp, site);
}

Tensor AllToAllSequenceToHidden::forward(const Tensor& x, Communicator& tp, Site site) {
  return rows_to_columns(x, tp, site);
}
Tensor AllToAllSequenceToHidden::backward(const Tensor& grad, Communicator& tp, Site site) {
  return columns_to_rows(grad, tp, site);
}

Tensor AllToAllHiddenToSequence::forward(const Tensor& x, Communicator& tp, Site site) {
  return columns_to_rows(x, tp, site);
}
Tensor AllToAllHiddenToSequence::backward(const Tensor& grad, Communicator& tp, Site site) {
  return rows_to_columns(grad, tp, site);
}

}  // namespace sim
