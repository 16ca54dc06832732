#include "sim/model/own_rotary_tables.h"

#include <algorithm>

#include "sim/context/rotary_positions.h"
#include "sim/context/row_order.h"

namespace sim {

namespace {

/// Returns the rows of the rotary tables that this rank's tokens take.
std::vector<std::int64_t> table_rows(const GptConfig& config, const SequenceCut& cut, int rank) {
  if (config.cu_seqlens.empty()) return rotary_positions(cut, rank);
  std::int64_t longest = 0;
  for (const Document& document : cut.documents()) longest = std::max(longest, document.length);
  return rotary_positions({.cu_seqlens = config.cu_seqlens,
                           .ranks = cut.ranks(),
                           .local_tokens = cut.local_length(),
                           .table_rows = longest,
                           .max_seqlen = longest},
                          rank);
}

}  // namespace

RotaryTables own_rotary_tables(Rank& rank, const GptConfig& config, const RotaryChannels& rotary,
                               const SequenceCut& cut) {
  if (rotary.base == 0) return {};
  const RotaryTables all =
      rotary_tables(rank.device, config.dtype, 0, config.seq_length, rotary.channels, rotary.base);
  if (cut.ranks() == 1 && config.cu_seqlens.empty()) return all;
  const std::vector<std::int64_t> positions = table_rows(config, cut, rank.groups.get("cp").rank());
  return {reordered_rows(all.cosines, positions), reordered_rows(all.sines, positions)};
}

}  // namespace sim
