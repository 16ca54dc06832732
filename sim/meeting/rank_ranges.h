#pragma once

/// Ranks as a reader names them: "rank 3", "ranks 3, 8-11".
///
/// Exact   any order, any repeats; long lists end in "and 17 more".

#include <string>
#include <vector>

namespace sim {

/// "3, 8-11", without the word.
std::string rank_ranges(std::vector<int> ranks);

/// "rank 3" or "ranks 3, 8-11".
std::string named_ranks(const std::vector<int>& ranks);

}  // namespace sim
