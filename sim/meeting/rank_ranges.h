#pragma once

/// Writes lists of ranks as short texts: "rank 3", "ranks 3, 8-11".
///
/// Exact   the input may have any order and may repeat ranks. The text of a long list ends with the number of
///         ranks left out: "and 17 more".

#include <string>
#include <vector>

namespace sim {

/// Returns "3, 8-11", without the word "ranks".
std::string rank_ranges(std::vector<int> ranks);

/// Returns "rank 3" or "ranks 3, 8-11".
std::string named_ranks(const std::vector<int>& ranks);

}  // namespace sim
