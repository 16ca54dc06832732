#pragma once

/// The cut of sequences over context-parallel ranks, stated by the distance of a token from the nearer end of
/// the piece that is cut: the tokens of a rank are those whose distances lie in its own part of half a piece.
///
/// Shapes  pieces follow one another; a rank has its tokens in the order of the sequence.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verify::reference {

/// Returns the tokens of each rank, rank after rank.
inline std::vector<std::int64_t> tokens_by_rank(const std::vector<std::int64_t>& lengths_of_pieces,
                                                int ranks) {
  std::vector<std::vector<std::int64_t>> tokens(static_cast<std::size_t>(ranks));
  std::int64_t token = 0;
  for (const std::int64_t length : lengths_of_pieces) {
    for (std::int64_t place = 0; place < length; ++place) {
      const std::int64_t from_end = std::min(place, length - 1 - place);
      tokens[static_cast<std::size_t>(from_end * 2 * ranks / length)].push_back(token++);
    }
  }
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& own : tokens) all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace verify::reference
