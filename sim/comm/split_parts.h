#pragma once

/// The parts into which a split divides a group: one part for each color, whose members are ordered by key
/// and then by place.
///
/// Shapes  the input has one element for each place of the group. The parts are in order of ascending
///         color. A member with a negative color is in no part.
/// Source  MPI 3.1, MPI_Comm_split; NCCL's ncclCommSplit.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/process_group.h"

namespace sim {

struct ColorAndKey {
  int color = -1;
  int key = 0;
};

struct SplitPart {
  int color;
  std::vector<int> places;  // places in the group that is split
};

std::vector<SplitPart> split_parts(const std::vector<ColorAndKey>& by_place);

/// Returns the index of the part of a color, or the number of parts if no part has this color.
int index_of(const std::vector<SplitPart>& parts, int color);

/// Returns the kind that all groups made by one split share. `sequence` is the number of the split call.
std::string split_name(const ProcessGroup& group, std::int64_t sequence);

}  // namespace sim
