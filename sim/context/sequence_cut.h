#pragma once

/// Which rows of a sequence a context-parallel rank has. A piece of the sequence is cut into 2 cp chunks of
/// equal length, and rank r has chunks r and 2 cp - 1 - r, so that a causal mask gives every rank the same
/// work. The pieces are the documents of a packed row, or the whole sequence.
///
/// Shapes  a cumulative length is where a document begins, [0, ..., S]. With padded ones, the documents lie
///         at the padded ones, and the real ones tell how many rows of each are no padding. With one rank a
///         piece is not cut, and nothing has to divide. A microbatch of several packed rows is one long row
///         (packed_rows.h).
/// Calls   none. Every rank computes the whole cut.
/// Errors  sequence_cp: no rank, or pieces whose length is not a multiple of 2 cp; document_offsets:
///         cumulative lengths that do not begin at 0 or that fall, padded ones of another number, a document
///         that is longer than its padded length.
/// Exact   The rows of all ranks are a permutation of the rows of the sequence.
/// Source  Megatron-LM, core/utils.py (get_batch_on_this_cp_rank); TransformerEngine, context_parallel.cu
///         (thd_partition_indices_kernel).

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sim {

/// A document of a packed row, in the rows of the whole sequence.
struct Document {
  std::int64_t begin = 0;
  std::int64_t length = 0;       // with its padding
  std::int64_t real_length = 0;  // without
  /// Returns how many rows of a chunk are no padding. They are its first rows.
  std::int64_t real_rows(std::int64_t chunk, std::int64_t rows_of_chunk) const {
    return std::clamp<std::int64_t>(real_length - chunk * rows_of_chunk, 0, rows_of_chunk);
  }
  bool operator==(const Document&) const = default;
};

class SequenceCut {
 public:
  /// Cuts a sequence that is one document.
  static SequenceCut of_sequence(std::int64_t length, int ranks);
  /// Cuts each document. `cu_seqlens_padded` may be empty: then no document has padding.
  static SequenceCut of_documents(const std::vector<std::int64_t>& cu_seqlens,
                                  const std::vector<std::int64_t>& cu_seqlens_padded, int ranks);
  /// Cuts the whole sequence, although it holds documents. Chunks then cross their borders.
  static SequenceCut of_packed_sequence(const std::vector<std::int64_t>& cu_seqlens,
                                        const std::vector<std::int64_t>& cu_seqlens_padded, int ranks);

  /// Cuts the same sequence over another number of ranks.
  SequenceCut over(int ranks) const { return {documents_, pieces_, ranks}; }

  int ranks() const { return ranks_; }
  std::int64_t length() const { return length_; }
  std::int64_t local_length() const { return length_ / ranks_; }
  const std::vector<Document>& documents() const { return documents_; }
  /// Whether each document is cut by itself, so that no chunk has rows of two documents.
  bool cuts_documents() const { return pieces_.size() == documents_.size(); }
  bool has_padding() const;

  /// Returns the rows of the whole sequence that a rank has, in the order in which it has them: piece by
  /// piece, first the low chunk, then the high one.
  std::vector<std::int64_t> rows_of(int rank) const;
  /// Returns the position of each of these rows in its document.
  std::vector<std::int64_t> positions_of(int rank) const;
  /// Returns for each row of the whole sequence its place among the rows of all ranks, rank after rank.
  std::vector<std::int64_t> places_of_rows() const;

 private:
  /// Rows that are cut together.
  struct Piece {
    std::int64_t begin;
    std::int64_t length;
  };
  SequenceCut(std::vector<Document> documents, std::vector<Piece> pieces, int ranks);

  std::vector<Document> documents_;
  std::vector<Piece> pieces_;
  std::int64_t length_ = 0;
  int ranks_ = 1;
};

}  // namespace sim
