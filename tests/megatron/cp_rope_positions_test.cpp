// Holds the rows of the table of rotary frequencies that a context-parallel rank takes against those that
// Megatron takes.

#include <gtest/gtest.h>
#include <vector>

#include "sim/context/rotary_positions.h"
#include "tests/megatron/lines.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using test::Json;
using Rows = std::vector<std::int64_t>;

Rows positions_of(const Json& line, int rank) {
  const Json& config = line["config"];
  if (line["kind"] == "thd") {
    PackedRotary packed{.cu_seqlens = line["cu_seqlens"].get<Rows>(),
                        .ranks = config["cp"],
                        .local_tokens = config["local_tokens"],
                        .table_rows = config["table_rows"]};
    if (!config["max_seqlen"].is_null()) packed.max_seqlen = config["max_seqlen"].get<std::int64_t>();
    return rotary_positions(packed, rank);
  }
  const bool is_cut = !config["packed"].get<bool>();
  const SequenceCut table = SequenceCut::of_sequence(config["S"], is_cut ? config["cp"].get<int>() : 1);
  return rotary_positions(table, is_cut ? rank : 0, config["offset"]);
}

TEST(MegatronCpRopePositions, EachTokenTakesTheRowThatMegatronTakes) {
  for (const Json& line : test::lines_of("cp/rope_positions.jsonl")) {
    SCOPED_TRACE("rope_positions line " + line["id"].dump() + " " + line["config"].dump());
    const bool is_refused = line.contains("error");
    EXPECT_EQ(test::refusal_code([&] { positions_of(line, 0); }), is_refused ? "sequence_cp" : "none");
    if (is_refused) continue;
    for (std::size_t rank = 0; rank < line["expected_positions"].size(); ++rank)
      EXPECT_EQ(positions_of(line, static_cast<int>(rank)), line["expected_positions"][rank].get<Rows>());
  }
}

}  // namespace
