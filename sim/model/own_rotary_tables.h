#pragma once

/// The cosines and sines by which a rank rotates its rows of a sequence.
///
/// Shapes  [S/cp, d/2]. With packed documents, the positions of each of them begin at 0.
/// Errors  those of rotary.h and of rotary_positions.h.

#include <vector>

#include "sim/comm/rank.h"
#include "sim/context/sequence_cut.h"
#include "sim/tensor/rotary.h"

namespace sim {

struct RotarySizes {
  DType dtype = DType::f32;
  std::int64_t sequence_length = 0;           // of whole sequences
  std::vector<std::int64_t> cu_seqlens = {};  // of the documents in each of them; empty: it is one
  std::int64_t channels = 0;                  // d, that are rotated of a head
  std::int64_t base = 0;                      // 0: there are no rotary positions, and no tables
};

RotaryTables own_rotary_tables(Rank& rank, const RotarySizes& sizes, const SequenceCut& cut);

}  // namespace sim
