// Proves for drawn sizes, documents and padding what has to hold of every cut over context-parallel ranks,
// and that rotary positions and flattened rows agree with it.

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/context/packed_rows.h"
#include "sim/context/rotary_positions.h"
#include "sim/context/sequence_cut.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using Rows = std::vector<std::int64_t>;

/// A packed row of documents that divide by 2 cp.
struct DrawnRow {
  int ranks;
  DocumentOffsets offsets;

  std::int64_t length() const { return offsets.cu_seqlens_padded.back(); }
};

DrawnRow drawn_row(int ranks) {
  DrawnRow row{ranks, {{0}, {0}}};
  const int documents = *rc::gen::inRange(1, 6);
  for (int d = 0; d < documents; ++d) {
    const std::int64_t length = 2 * std::int64_t{ranks} * *rc::gen::inRange(0, 5);
    const std::int64_t real_length = length - *rc::gen::inRange<std::int64_t>(0, length + 1);
    row.offsets.cu_seqlens.push_back(row.offsets.cu_seqlens.back() + real_length);
    row.offsets.cu_seqlens_padded.push_back(row.offsets.cu_seqlens_padded.back() + length);
  }
  return row;
}

int drawn_ranks() { return *rc::gen::inRange(1, 9); }

SequenceCut drawn_cut() {
  const DrawnRow row = drawn_row(drawn_ranks());
  const Rows &real = row.offsets.cu_seqlens, &padded = row.offsets.cu_seqlens_padded;
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      return SequenceCut::of_sequence(row.length(), row.ranks);
    case 1:
      return SequenceCut::of_packed_sequence(real, padded, row.ranks);
    default:
      return SequenceCut::of_documents(real, padded, row.ranks);
  }
}

Rows chosen(const Rows& values, const Rows& places) {
  Rows result;
  for (const std::int64_t place : places) result.push_back(values[static_cast<std::size_t>(place)]);
  return result;
}

Rows joined(const Rows& first, const Rows& second) {
  Rows both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

RC_GTEST_PROP(SequenceCutLaws, GatheringUndoesTheCut, ()) {
  const SequenceCut cut = drawn_cut();
  Rows values, gathered;
  for (std::int64_t row = 0; row < cut.length(); ++row) values.push_back(1000 + 7 * row);
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    RC_ASSERT(static_cast<std::int64_t>(cut.rows_of(rank).size()) == cut.local_length());
    gathered = joined(gathered, chosen(values, cut.rows_of(rank)));
  }
  RC_ASSERT(chosen(gathered, cut.places_of_rows()) == values);
}

RC_GTEST_PROP(SequenceCutLaws, PositionsAreCutAsAnythingElse, ()) {
  const SequenceCut cut = drawn_cut();
  Rows position_ids;
  for (const Document& document : cut.documents())
    for (std::int64_t row = 0; row < document.length; ++row) {
      RC_ASSERT(document.begin + row == static_cast<std::int64_t>(position_ids.size()));
      position_ids.push_back(row);
    }
  for (int rank = 0; rank < cut.ranks(); ++rank)
    RC_ASSERT(cut.positions_of(rank) == chosen(position_ids, cut.rows_of(rank)));
}

RC_GTEST_PROP(SequenceCutLaws, ThereIsPaddingWhereNotAllRowsAreReal, ()) {
  const SequenceCut cut = drawn_cut();
  std::int64_t real_rows = 0;
  for (const Document& document : cut.documents()) real_rows += document.real_length;
  RC_ASSERT(cut.has_padding() == (real_rows < cut.length()));
}

/// Chunk c of 2 cp chunks of l rows sees c l rows of each earlier chunk's and half of its own square, so the
/// two of a rank see 2 cp l l + l pairs in each document.
RC_GTEST_PROP(SequenceCutLaws, EveryRankHasTheSameCausalWork, ()) {
  const DrawnRow row = drawn_row(*rc::gen::inRange(2, 9));
  const SequenceCut cut =
      SequenceCut::of_documents(row.offsets.cu_seqlens, row.offsets.cu_seqlens_padded, row.ranks);
  std::int64_t wanted = 0;
  for (const Document& document : cut.documents()) {
    const std::int64_t chunk = document.length / (2 * row.ranks);
    wanted += 2 * row.ranks * chunk * chunk + chunk;
  }
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    std::int64_t pairs = 0;
    for (const std::int64_t position : cut.positions_of(rank)) pairs += position + 1;
    RC_ASSERT(pairs == wanted);
  }
}

RC_GTEST_PROP(SequenceCutLaws, RotaryPositionsAreThoseOfTheCut, ()) {
  const DrawnRow row = drawn_row(drawn_ranks());
  const SequenceCut cut =
      SequenceCut::of_documents(row.offsets.cu_seqlens, row.offsets.cu_seqlens_padded, row.ranks);
  const std::int64_t offset = *rc::gen::inRange(0, 9);
  std::int64_t longest = 1;
  for (const Document& document : cut.documents()) longest = std::max(longest, document.length);
  const PackedRotary packed{.cu_seqlens = row.offsets.cu_seqlens_padded,
                            .ranks = row.ranks,
                            .local_tokens = cut.local_length(),
                            .table_rows = longest,
                            .max_seqlen = longest};
  PackedRotary packed_table = packed;
  packed_table.table_rows = row.length() + 1;
  const SequenceCut whole = SequenceCut::of_sequence(row.length(), row.ranks);
  for (int rank = 0; rank < row.ranks; ++rank) {
    RC_ASSERT(rotary_positions(packed, rank) == cut.positions_of(rank));
    RC_ASSERT(rotary_positions(packed_table, rank) == cut.rows_of(rank));
    Rows from_offset = whole.positions_of(rank);
    for (std::int64_t& position : from_offset) position += offset;
    RC_ASSERT(rotary_positions(whole, rank, offset) == from_offset);
  }
}

RC_GTEST_PROP(SequenceCutLaws, FlattenedRowsAreCutAsEachRow, ()) {
  const int ranks = drawn_ranks();
  const DrawnRow first = drawn_row(ranks);
  const std::int64_t length = first.length();
  // The second row has the documents of the first one in the other order, and both are filled to one length.
  DrawnRow second{ranks, {{0}, {0}}};
  const std::size_t count = first.offsets.cu_seqlens.size();
  for (std::size_t d = count; d-- > 1;) {
    const auto step = [&](Rows& to, const Rows& from) { to.push_back(to.back() + from[d] - from[d - 1]); };
    step(second.offsets.cu_seqlens, first.offsets.cu_seqlens);
    step(second.offsets.cu_seqlens_padded, first.offsets.cu_seqlens_padded);
  }
  const auto filled = [&](DocumentOffsets offsets) {
    const int repeats = *rc::gen::inRange(0, 3);
    for (int i = 0; i < repeats; ++i) {
      offsets.cu_seqlens.push_back(offsets.cu_seqlens.back());
      offsets.cu_seqlens_padded.push_back(length);
    }
    return offsets;
  };
  const DocumentOffsets flat = flattened({filled(first.offsets), filled(second.offsets)}, length);
  const SequenceCut cut = SequenceCut::of_documents(flat.cu_seqlens, flat.cu_seqlens_padded, ranks);
  const auto rows_of = [&](const DrawnRow& row, int rank) {
    return SequenceCut::of_documents(row.offsets.cu_seqlens, row.offsets.cu_seqlens_padded, ranks)
        .rows_of(rank);
  };
  RC_ASSERT(cut.length() == 2 * length);
  for (int rank = 0; rank < ranks; ++rank) {
    Rows in_second = rows_of(second, rank);
    for (std::int64_t& row : in_second) row += length;
    RC_ASSERT(cut.rows_of(rank) == joined(rows_of(first, rank), in_second));
  }
}

TEST(PackedRows, DropZerosInsideAndRepetitionsAtTheEnds) {
  EXPECT_EQ(flattened({{{0, 12, 12, 12}}, {{0, 4, 8, 12}}}, 12), (DocumentOffsets{{0, 12, 16, 20, 24}}));
  EXPECT_EQ(flattened({{{0, 3, 9}, {0, 4, 12}}, {{0, 5, 5}, {0, 12, 12}}}, 12),
            (DocumentOffsets{{0, 3, 9, 14}, {0, 4, 12, 24}}));
}

TEST(PackedRows, RefuseTokensOutsideOfDocuments) {
  EXPECT_EQ(test::refusal_code([] { flattened({{{0, 8, 16}}}, 24); }), "document_offsets");
  EXPECT_EQ(test::refusal_code([] { flattened({{{0, 8, 24}}, {{0, 8, 4}}}, 24); }), "document_offsets");
  EXPECT_EQ(test::refusal_code([] { flattened({{{0, 8, 24}}}, 24); }), "none");
}

}  // namespace
