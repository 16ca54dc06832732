#pragma once

/// What a rank owns of a gradient buffer under ZeRO-1: of each bucket the rank's equal part, and of that the
/// pieces of parameters.
///
/// Shapes  elements; the four ranges of a piece have the same size. A rank may own no parameter of a bucket,
///         where its part is padding.
/// Errors  range_map: a bucket or a rank that is not there.
/// Exact   over the ranks, the `param` ranges of a parameter tile it: each element is owned once.
/// Source  Megatron-LM, DistributedOptimizer._build_model_gbuf_range_map.

#include <vector>

#include "sim/optimizer/buffer_layout.h"

namespace sim {

struct OwnedPiece {
  int parameter = 0;
  ElementRange world;            // of the buffer
  ElementRange world_in_bucket;  // of the bucket
  ElementRange local;            // of the rank's part
  ElementRange param;            // of the parameter
};

/// The rank's part of a bucket: [r B/D, (r + 1) B/D) of it, in the buffer.
ElementRange owned_range(const BufferLayout& layout, int bucket, int rank);
/// In the order in which they lie.
std::vector<OwnedPiece> owned_pieces(const BufferLayout& layout, int bucket, int rank);

}  // namespace sim
