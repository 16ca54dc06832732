#include "sim/context/packed_rows.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/context/sequence_cut.h"

namespace sim {

namespace {

/// Returns the documents of a row without the empty ones at its end.
std::vector<Document> documents_of_row(const DocumentOffsets& row, std::size_t number,
                                       std::int64_t row_length) {
  const SequenceCut whole = SequenceCut::of_documents(row.cu_seqlens, row.cu_seqlens_padded, 1);
  if (whole.length() != row_length)
    refuse({.code = "document_offsets",
            .option = "cu_seqlens",
            .numbers = fmt::format("the documents of row {} end at {}, and it has {} tokens", number,
                                   whole.length(), row_length),
            .rule = "each token of a row is in one of its documents",
            .hint = fmt::format("{} as the last cumulative length", row_length)});
  std::vector<Document> documents = whole.documents();
  while (documents.size() > 1 && documents.back().length == 0) documents.pop_back();
  return documents;
}

}  // namespace

DocumentOffsets flattened(const std::vector<DocumentOffsets>& rows, std::int64_t row_length) {
  const bool has_padding = std::any_of(
      rows.begin(), rows.end(), [](const DocumentOffsets& row) { return !row.cu_seqlens_padded.empty(); });
  DocumentOffsets all = {{0}, {0}};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const Document& document : documents_of_row(rows[r], r, row_length)) {
      all.cu_seqlens.push_back(all.cu_seqlens.back() + document.real_length);
      all.cu_seqlens_padded.push_back(all.cu_seqlens_padded.back() + document.length);
    }
  }
  if (!has_padding) all.cu_seqlens_padded.clear();
  return all;
}

}  // namespace sim
