#pragma once

/// What a split makes of a group: the members of each color, ordered by key and then by place.
///
/// Shapes  given by place; parts by ascending color, members without one (negative) in none.
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
  std::vector<int> places;  // of the group that is split
};

std::vector<SplitPart> split_parts(const std::vector<ColorAndKey>& by_place);

/// The place of a color's part among them; their number where there is none.
int index_of(const std::vector<SplitPart>& parts, int color);

/// Of all the groups that one split makes.
std::string split_name(const ProcessGroup& group, std::int64_t sequence);

}  // namespace sim
