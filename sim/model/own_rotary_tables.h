#pragma once

/// The cosines and sines by which a rank rotates its rows of a sequence.
///
/// Shapes  [S/cp, d/2]. With packed documents, the positions of each of them begin at 0.
/// Errors  those of rotary.h and of rotary_positions.h.

#include "sim/comm/rank.h"
#include "sim/context/sequence_cut.h"
#include "sim/model/gpt_config.h"
#include "sim/tensor/rotary.h"

namespace sim {

/// The channels d of a head that are rotated. With a base of 0 there are no rotary positions, and no tables.
struct RotaryChannels {
  std::int64_t channels = 0;
  std::int64_t base = 0;
};

RotaryTables own_rotary_tables(Rank& rank, const GptConfig& config, const RotaryChannels& rotary,
                               const SequenceCut& cut);

}  // namespace sim
