#pragma once

/// What one rank has of a checkpoint: pieces of the main parameters and moments, and buffers.
///
/// Shapes  a piece is a range of the elements of a tensor of the whole model, in the order of part_order.h.
/// Errors  checkpoint_names: two tensors of one rank have the same name, or a name is not UTF-8.

#include <string>
#include <vector>

#include "sim/optimizer/distributed_optimizer.h"
#include "sim/optimizer/part_order.h"

namespace sim {

/// State beside the parameters that all ranks of a pipeline stage hold alike, such as expert biases. It is
/// named once in the model.
struct CheckpointBuffer {
  std::string name;
  Tensor tensor;
};

/// A tensor of the whole model, of which this rank has a part or all.
struct KeptTensor {
  std::string name;  // "decoder.weight/exp_avg"
  std::string form;  // dtype, shape and partition, as text; load compares it to the text of the checkpoint
  DType dtype = DType::f32;
  Parameter parameter;  // how the tensor is cut; a buffer counts as a parameter that is not cut
  std::int64_t parts() const { return parameter.attributes.partition_size; }
};

struct KeptPiece {
  std::size_t tensor = 0;  // its number
  ElementRange range;      // of the order of this rank's layout
  Tensor values;
  bool is_written = false;  // this rank is the first of those that have the piece
};

struct CheckpointContents {
  std::vector<KeptTensor> tensors;
  std::vector<KeptPiece> pieces;
};

CheckpointContents checkpoint_contents(Rank& rank, DistributedOptimizer& optimizer,
                                       const std::vector<CheckpointBuffer>& buffers);

}  // namespace sim
