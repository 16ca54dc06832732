#pragma once

/// Several packed rows laid end to end, which is how a microbatch of more than one sequence is cut by
/// documents.
///
/// Shapes  a row has S tokens. All rows of a batch have equally many cumulative lengths, so a row of few
///         documents repeats its last one. The documents of row i are shifted by i S rows; the zero in front
///         of each row but the first and the repetitions at its end are dropped.
/// Calls   none.
/// Errors  document_offsets: as sequence_cut.h says, and a row whose documents end before its last token.
/// Source  Megatron-LM, core/utils.py (flatten_batch_for_packed_sequences).

#include <cstdint>
#include <vector>

namespace sim {

/// Where the documents of a row begin. `cu_seqlens_padded` is empty if no document has padding.
struct DocumentOffsets {
  std::vector<std::int64_t> cu_seqlens;
  std::vector<std::int64_t> cu_seqlens_padded = {};
  bool operator==(const DocumentOffsets&) const = default;
};

DocumentOffsets flattened(const std::vector<DocumentOffsets>& rows, std::int64_t row_length);

}  // namespace sim
