#pragma once

/// "t0d1p0": where a rank stands on the axes tp, cp, dp and pp of more than one rank, in the width of a cell.

#include <string>

#include "sim/layout/rank_grid.h"

namespace verify {

std::string cell_text(const sim::RankGrid& grid, int rank);

}  // namespace verify
