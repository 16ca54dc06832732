// Shows which rows a context-parallel rank has, and what cannot be cut.

#include "sim/context/sequence_cut.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using test::refusal_code;
using Rows = std::vector<std::int64_t>;

TEST(SequenceCut, GivesARankALowAndAHighChunk) {
  const SequenceCut cut = SequenceCut::of_sequence(12, 3);
  EXPECT_EQ(cut.rows_of(0), (Rows{0, 1, 10, 11}));
  EXPECT_EQ(cut.rows_of(1), (Rows{2, 3, 8, 9}));
  EXPECT_EQ(cut.rows_of(2), (Rows{4, 5, 6, 7}));
  EXPECT_EQ(cut.local_length(), 4);
  EXPECT_EQ(cut.places_of_rows(), (Rows{0, 1, 4, 5, 8, 9, 10, 11, 6, 7, 2, 3}));
  EXPECT_EQ(SequenceCut::of_sequence(3, 1).rows_of(0), (Rows{0, 1, 2}));
}

TEST(SequenceCut, CutsEachDocumentAtItsPaddedOffset) {
  const SequenceCut cut = SequenceCut::of_documents({0, 3, 8}, {0, 4, 12}, 2);
  EXPECT_EQ(cut.documents(), (std::vector<Document>{{0, 4, 3}, {4, 8, 5}}));
  EXPECT_EQ(cut.rows_of(0), (Rows{0, 3, 4, 5, 10, 11}));
  EXPECT_EQ(cut.positions_of(0), (Rows{0, 3, 0, 1, 6, 7}));
  EXPECT_EQ(cut.positions_of(1), (Rows{1, 2, 2, 3, 4, 5}));
}

TEST(SequenceCut, CanCutAPackedRowAsOneSequence) {
  const SequenceCut cut = SequenceCut::of_packed_sequence({0, 2, 10, 12}, {}, 2);
  EXPECT_EQ(cut.rows_of(0), (Rows{0, 1, 2, 9, 10, 11}));
  EXPECT_EQ(cut.positions_of(0), (Rows{0, 1, 0, 7, 0, 1}));
  EXPECT_EQ(cut.documents().size(), 3U);
}

TEST(SequenceCut, RefusesLengthsThatDoNotDivide) {
  EXPECT_EQ(refusal_code([] { SequenceCut::of_sequence(6, 2); }), "sequence_cp");
  EXPECT_EQ(refusal_code([] { SequenceCut::of_sequence(6, 0); }), "sequence_cp");
  EXPECT_EQ(refusal_code([] { SequenceCut::of_sequence(5, 1); }), "none");
  EXPECT_EQ(refusal_code([] { SequenceCut::of_packed_sequence({0, 3, 6}, {}, 2); }), "sequence_cp");
  try {
    SequenceCut::of_documents({0, 4, 10, 18, 23}, {}, 2);
    ADD_FAILURE() << "it was cut";
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().code, "sequence_cp");
    EXPECT_EQ(error.refusal().numbers, "document 1 has 6 rows, document 3 has 5 rows, and 2 cp = 2 * 2 = 4");
    EXPECT_EQ(error.refusal().hint, "document 1 with 8 rows");
  }
}

TEST(SequenceCut, RefusesOffsetsThatAreNotCumulativeLengths) {
  const auto code = [](const Rows& real, const Rows& padded) {
    return refusal_code([&] { SequenceCut::of_documents(real, padded, 1); });
  };
  EXPECT_EQ(code({0, 3, 3, 8}, {0, 4, 4, 12}), "none");
  EXPECT_EQ(code({}, {}), "document_offsets");
  EXPECT_EQ(code({1, 3}, {}), "document_offsets");
  EXPECT_EQ(code({0, 3, 2}, {}), "document_offsets");
  EXPECT_EQ(code({0, 3}, {0, 4, 8}), "document_offsets");
  EXPECT_EQ(code({0, 3, 8}, {0, 4, 2}), "document_offsets");
  EXPECT_EQ(code({0, 3, 8}, {0, 2, 8}), "document_offsets");
}

}  // namespace
