#include "sim/meeting/rank_ranges.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace sim {

std::string rank_ranges(std::vector<int> ranks) {
  constexpr int kMostRanges = 16;  // Messages are short, because people read them.
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  int ranges = 0;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] - ranks[last] == 1) ++last;
    if (ranges++ == kMostRanges) return text + fmt::format(" and {} more", ranks.size() - first);
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text += fmt::format("{}{}", last == first + 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string named_ranks(const std::vector<int>& ranks) {
  const bool is_one =
      std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return rank == ranks.front(); });
  return (is_one ? "rank " : "ranks ") + rank_ranges(ranks);
}

}  // namespace sim
