// Holds the cut of a batch over context-parallel ranks against what Megatron's get_batch_on_this_cp_rank does
// with it, and what is refused.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/context/packed_rows.h"
#include "sim/context/sequence_cut.h"
#include "tests/megatron/lines.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using test::Json;
using Rows = std::vector<std::int64_t>;

DocumentOffsets offsets_of(const Json& line, std::size_t row) {
  const Json& padded = line["cu_seqlens_padded"];
  return {line["cu_seqlens"][row].get<Rows>(), padded.is_null() ? Rows{} : padded[row].get<Rows>()};
}

/// The offsets of all rows of a line, laid end to end. Nothing else sees tokens that are in no document.
DocumentOffsets flat_offsets_of(const Json& line) {
  std::vector<DocumentOffsets> rows;
  for (std::size_t row = 0; row < line["cu_seqlens"].size(); ++row) rows.push_back(offsets_of(line, row));
  return flattened(rows, line["config"]["S"]);
}

/// Hybrid lines without a size of the group that a sample is cut over give no rank.
int ranks_of(const Json& line) {
  const Json& config = line["config"];
  if (!config["hybrid"].get<bool>()) return config["cp"];
  return line["local_cp_size"].is_null() ? 0 : line["local_cp_size"].get<int>();
}

/// Whether the rows of the batch are one long row.
bool is_flat(const Json& line) { return line["config"]["flatten"].get<bool>(); }

SequenceCut cut_of(const Json& line) {
  const Json& config = line["config"];
  const bool is_packed = !line["cu_seqlens"].is_null() && !config["hybrid"].get<bool>();
  if (!is_packed) return SequenceCut::of_sequence(config["S"], ranks_of(line));
  const DocumentOffsets flat = flat_offsets_of(line);  // of one row, as it is
  const DocumentOffsets offsets = is_flat(line) ? flat : offsets_of(line, 0);
  const auto make =
      config["per_sequence"].get<bool>() ? SequenceCut::of_packed_sequence : SequenceCut::of_documents;
  return make(offsets.cu_seqlens, offsets.cu_seqlens_padded, ranks_of(line));
}

std::string wanted_code(const Json& line) {
  if (line["kind"] == "document_tail_outside_cu") return "document_offsets";
  return line.contains("error") ? "sequence_cp" : "none";
}

/// Returns the position of each row of a batch's row, from the positions before the cut.
Rows positions_at(const Rows& positions, const Rows& rows) {
  Rows chosen;
  for (const std::int64_t row : rows) chosen.push_back(positions[static_cast<std::size_t>(row)]);
  return chosen;
}

void expect_rows_of_a_rank(const Json& line, const SequenceCut& cut, const Json& wanted) {
  const int rank = wanted["cp_rank"].get<int>() % cut.ranks();
  if (wanted.contains("group_size_used")) {
    EXPECT_EQ(cut.ranks(), wanted["group_size_used"].get<int>());
  }
  Rows all_positions;  // of a batch of one long row
  for (const Json& row : line["position_ids"])
    for (const Json& position : row) all_positions.push_back(position);
  for (std::size_t b = 0; b < wanted["indices"].size(); ++b) {
    const Rows rows = cut.rows_of(rank);
    Rows indices = rows;
    for (std::int64_t& index : indices) index += static_cast<std::int64_t>(b) * cut.length();
    EXPECT_EQ(indices, wanted["indices"][b].get<Rows>());
    EXPECT_EQ(cut.positions_of(rank), wanted["position_ids"][b].get<Rows>());
    const Rows before = is_flat(line) ? all_positions : line["position_ids"][b].get<Rows>();
    EXPECT_EQ(positions_at(before, rows), wanted["position_ids"][b].get<Rows>());
    if (wanted.contains("mask_rows")) {
      EXPECT_EQ(rows, wanted["mask_rows"].get<Rows>());
    }
  }
}

TEST(MegatronCpSplit, ARankHasTheRowsThatMegatronGivesIt) {
  for (const Json& line : test::lines_of("cp/cp_split.jsonl")) {
    SCOPED_TRACE("cp_split line " + line["id"].dump() + " " + line["kind"].dump());
    const std::string code = wanted_code(line);
    EXPECT_EQ(test::refusal_code([&] { cut_of(line); }), code);
    if (code != "none") continue;
    const SequenceCut cut = cut_of(line);
    for (const Json& wanted : line["expected"]) expect_rows_of_a_rank(line, cut, wanted);
  }
}

TEST(MegatronCpSplit, RowsAreFlattenedAsByMegatron) {
  for (const Json& line : test::lines_of("cp/cp_split.jsonl")) {
    if (!is_flat(line) || line.contains("error")) continue;
    SCOPED_TRACE("cp_split line " + line["id"].dump());
    const DocumentOffsets flat = flat_offsets_of(line);
    EXPECT_EQ(flat.cu_seqlens, line["flat_cu_seqlens"].get<Rows>());
    if (line.contains("flat_cu_seqlens_padded") && !line["flat_cu_seqlens_padded"].is_null()) {
      EXPECT_EQ(flat.cu_seqlens_padded, line["flat_cu_seqlens_padded"].get<Rows>());
    }
  }
}

}  // namespace
