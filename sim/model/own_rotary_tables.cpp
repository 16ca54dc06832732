#include "sim/model/own_rotary_tables.h"

#include <algorithm>

#include "sim/context/rotary_positions.h"
#include "sim/context/row_order.h"

namespace sim {

namespace {

/// Returns the rows of the rotary tables that this rank's tokens take.
std::vector<std::int64_t> table_rows(const RotarySizes& sizes, const SequenceCut& cut, int rank) {
  if (sizes.cu_seqlens.empty()) return rotary_positions(cut, rank);
  std::int64_t longest = 0;
  for (const Document& document : cut.documents()) longest = std::max(longest, document.length);
  return rotary_positions({.cu_seqlens = sizes.cu_seqlens,
                           .ranks = cut.ranks(),
                           .local_tokens = cut.local_length(),
                           .table_rows = longest,
                           .max_seqlen = longest},
                          rank);
}

}  // namespace

RotaryTables own_rotary_tables(Rank& rank, const RotarySizes& sizes, const SequenceCut& cut) {
  if (sizes.base == 0) return {};
  const RotaryTables all =
      rotary_tables(rank.device, sizes.dtype, 0, sizes.sequence_length, sizes.channels, sizes.base);
  if (cut.ranks() == 1 && sizes.cu_seqlens.empty()) return all;
  const std::vector<std::int64_t> positions = table_rows(sizes, cut, rank.groups.get("cp").rank());
  return {reordered_rows(all.cosines, positions), reordered_rows(all.sines, positions)};
}

}  // namespace sim
