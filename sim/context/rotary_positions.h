#pragma once

/// Which row of the table of rotary frequencies each token of a context-parallel rank takes.
///
/// Shapes  of a sequence, the table has a row a position and is cut as the sequence is. Of a packed row, each
///         document begins again at row 0 of the whole table. A table with more rows than the longest
///         document is one of the packed row: the tokens then take their places in that row.
/// Calls   none.
/// Exact   Where all documents divide by 2 cp, the positions are those of SequenceCut. Elsewhere a local
///         length is rounded down as Megatron does it, tokens after the last document count on from it, and
///         all rows are clamped to the table. Such tokens are padding: Megatron masks what becomes of them.
/// Source  Megatron-LM, core/models/common/embeddings/rope_utils.py.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/context/sequence_cut.h"

namespace sim {

/// Returns the positions of a rank's rows of a sequence, counted from `offset`.
std::vector<std::int64_t> rotary_positions(const SequenceCut& cut, int rank, std::int64_t offset = 0);

struct PackedRotary {
  std::vector<std::int64_t> cu_seqlens;  // the padded ones, if there are such
  int ranks = 1;
  std::int64_t local_tokens = 0;  // may be more than those of the documents
  std::int64_t table_rows = 0;
  /// The length of the longest document. Callers of old do not give it: the table is then one of the packed
  /// row if it has as many rows as all documents together.
  std::optional<std::int64_t> max_seqlen = std::nullopt;

  bool table_is_packed() const {
    return max_seqlen ? table_rows > *max_seqlen : table_rows == cu_seqlens.back();
  }
};

std::vector<std::int64_t> rotary_positions(const PackedRotary& packed, int rank);

}  // namespace sim
