#pragma once

/// The plan of a trial of a batch that is cut over context-parallel ranks, derived from a setting: its
/// documents, and how it is cut.
///
/// Shapes  All ranks are of one group cp. Without documents a batch has B sequences of S tokens, and token s
///         of sequence b is in row s B + b. With documents its B packed rows are laid end to end. Each row
///         has the documents of row 0, which begin with another one. The length of a document is a multiple
///         of 2 cp, unless the packed rows are cut as one sequence.

#include <functional>
#include <numeric>
#include <vector>

#include "sim/context/packed_rows.h"
#include "sim/context/rotary_positions.h"
#include "verify/cases/case_inputs.h"

namespace verify {

struct ContextPlan {
  const CaseSetting& s;
  using Numbers = std::vector<std::int64_t>;

  int cp() const { return s.group_size; }
  bool is_packed() const { return s["documents"] > 0; }
  bool is_cut_as_sequence() const { return !is_packed() || s["per_sequence"] == 1; }
  /// The sequences whose tokens lie beside each other.
  std::int64_t batch() const { return is_packed() ? 1 : s["batch"]; }

  /// The lengths of the documents of a packed row, with padding. The first one has the most chunks, and
  /// others may have none.
  Numbers lengths(std::int64_t row) const {
    Numbers lengths;
    for (std::int64_t d = 0; d < s["documents"]; ++d) {
      const std::int64_t chunk = d == 0 ? s["chunk"] : below("chunk", d, s["chunk"] + 1);
      lengths.push_back(2 * cp() * chunk);
    }
    std::rotate(lengths.begin(), lengths.begin() + row % s["documents"], lengths.end());
    if (!is_cut_as_sequence()) return lengths;
    for (std::size_t d = 0; d + 1 < lengths.size(); ++d) {  // the border behind a document is one row earlier
      if (lengths[d] == 0) continue;
      --lengths[d];
      ++lengths[d + 1];
    }
    return lengths;
  }
  /// The lengths of a row's documents without padding.
  Numbers real_lengths(std::int64_t row) const {
    Numbers real = lengths(row);
    for (std::size_t d = 0; d < real.size() && s["padded"] == 1; ++d)
      real[d] -= below("padding", row * s["documents"] + static_cast<std::int64_t>(d), real[d] + 1);
    return real;
  }
  /// The length of a row: a sequence, or its documents.
  std::int64_t row_length() const {
    if (!is_packed()) return 2 * cp() * s["chunk"];
    const Numbers of_row = lengths(0);
    return std::accumulate(of_row.begin(), of_row.end(), std::int64_t{0});
  }
  /// The tokens that are cut together: of one sequence, or of all packed rows.
  std::int64_t length() const { return row_length() * (is_packed() ? s["batch"] : 1); }
  std::int64_t tokens() const { return length() * batch(); }

  sim::DocumentOffsets offsets() const {
    std::vector<sim::DocumentOffsets> rows;
    for (std::int64_t row = 0; row < s["batch"]; ++row)
      rows.push_back({cumulative(real_lengths(row)), cumulative(lengths(row))});
    return flattened(rows, row_length());
  }
  sim::SequenceCut cut() const {
    if (!is_packed()) return sim::SequenceCut::of_sequence(length(), cp());
    const sim::DocumentOffsets of_rows = offsets();
    const auto make =
        is_cut_as_sequence() ? sim::SequenceCut::of_packed_sequence : sim::SequenceCut::of_documents;
    return make(of_rows.cu_seqlens, of_rows.cu_seqlens_padded, cp());
  }

  /// Whether the rotary table has a row for each token of the packed rows.
  bool has_packed_table() const { return s["packed_table"] == 1; }
  /// Rotary positions of a sequence are counted from this one.
  std::int64_t offset() const { return is_packed() ? 0 : s["offset"]; }
  std::int64_t longest() const {
    const Numbers all = lengths(0);
    return *std::ranges::max_element(all);
  }
  /// One row more than there are tokens, so that a table of the packed rows is always longer than the longest
  /// document.
  std::int64_t rotary_rows() const {
    return is_cut_as_sequence() || has_packed_table() ? length() + offset() + 1 : longest();
  }
  sim::PackedRotary rotary() const {
    return {.cu_seqlens = offsets().cu_seqlens_padded,
            .ranks = cp(),
            .local_tokens = length() / cp(),
            .table_rows = rotary_rows(),
            .max_seqlen = longest()};
  }

 private:
  std::int64_t below(const char* name, std::int64_t index, std::int64_t bound) const {
    return sim::KeyedRandom(s.seed).named(name).below(static_cast<std::uint64_t>(index),
                                                      static_cast<std::uint32_t>(bound));
  }
  static Numbers cumulative(const Numbers& lengths) {
    Numbers offsets = {0};
    for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
  }
};

/// What a planted mistake changes: the rows that a rank takes of a tensor, or the rows that it takes of the
/// tables of positions ("positions") and of rotary frequencies ("rotary").
using ContextMistake = std::function<void(const ContextPlan& plan, int rank, const std::string& tensor,
                                          ContextPlan::Numbers& numbers)>;

/// Cuts a drawn batch, gathers its tokens and a gradient, and publishes the outputs of the case.
void run_context_batch(sim::Rank& rank, const CaseSetting& s, const ContextMistake& mistake = nullptr);

}  // namespace verify
