#include "sim/context/rotary_positions.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"

namespace sim {

namespace {

/// A document as a rank sees it: how many of its tokens are here, after how many of others, and where it
/// begins in the whole row.
struct LocalDocument {
  std::int64_t begin;
  std::int64_t length;
  std::int64_t begin_in_row;
};

std::vector<LocalDocument> local_documents(const PackedRotary& packed) {
  std::vector<LocalDocument> documents;
  std::int64_t begin = 0;
  for (std::size_t d = 0; d + 1 < packed.cu_seqlens.size(); ++d) {
    const std::int64_t length = (packed.cu_seqlens[d + 1] - packed.cu_seqlens[d]) / packed.ranks;
    documents.push_back({begin, length, packed.cu_seqlens[d]});
    begin += length;
  }
  return documents;
}

/// Returns the position in its document of a rank's token.
std::int64_t position_of(const LocalDocument& document, std::int64_t token, int ranks, int rank) {
  const std::int64_t place = token - document.begin;
  if (ranks == 1) return place;
  const std::int64_t chunk = document.length / 2;
  if (place < chunk) return rank * chunk + place;
  return ranks * document.length - (rank + 1) * chunk + (place - chunk);
}

}  // namespace

std::vector<std::int64_t> rotary_positions(const SequenceCut& cut, int rank, std::int64_t offset) {
  std::vector<std::int64_t> positions = cut.rows_of(rank);
  for (std::int64_t& position : positions) position += offset;
  return positions;
}

std::vector<std::int64_t> rotary_positions(const PackedRotary& packed, int rank) {
  SIM_CHECK(packed.cu_seqlens.size() >= 2 && packed.table_rows >= 1);
  const std::vector<LocalDocument> documents = local_documents(packed);
  std::vector<std::int64_t> positions;
  for (std::int64_t token = 0; token < packed.local_tokens; ++token) {
    const auto next =
        std::upper_bound(documents.begin(), documents.end(), token,
                         [](std::int64_t t, const LocalDocument& document) { return t < document.begin; });
    const LocalDocument& document = *(next - 1);
    const std::int64_t first = packed.table_is_packed() ? document.begin_in_row : 0;
    const std::int64_t position = first + position_of(document, token, packed.ranks, rank);
    positions.push_back(std::clamp<std::int64_t>(position, 0, packed.table_rows - 1));
  }
  return positions;
}

}  // namespace sim
