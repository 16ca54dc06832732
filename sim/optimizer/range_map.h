#pragma once

/// The part of a gradient buffer that a rank owns under ZeRO-1: an equal part of each bucket, and in it the
/// pieces of parameters.
///
/// Shapes  in elements; the four ranges of a piece have the same size. A rank owns no parameter of a bucket
///         if its part is padding.
/// Errors  range_map: a bucket or a rank that does not exist.
/// Exact   Over the ranks, the `param` ranges of a parameter tile it: each element is owned once.
/// Source  Megatron-LM, DistributedOptimizer._build_model_gbuf_range_map.

#include <vector>

#include "sim/optimizer/buffer_layout.h"

namespace sim {

/// One piece of a parameter, as a range in four coordinates.
struct OwnedPiece {
  int parameter = 0;
  ElementRange world;            // in the buffer
  ElementRange world_in_bucket;  // in the bucket
  ElementRange local;            // in the rank's part of the bucket
  ElementRange param;            // in the parameter
};

/// Returns the part of a bucket that rank r owns, [r B/D, (r + 1) B/D) of the bucket, as a range in the
/// buffer.
ElementRange owned_range(const BufferLayout& layout, int bucket, int rank);
/// Returns the pieces of parameters in that part, in the order in which they lie in the buffer.
std::vector<OwnedPiece> owned_pieces(const BufferLayout& layout, int bucket, int rank);

}  // namespace sim
