#include "sim/context/sequence_cut.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

namespace {

using Offsets = std::vector<std::int64_t>;

[[noreturn]] void refuse_offsets(std::string numbers) {
  refuse({.code = "document_offsets",
          .option = "cu_seqlens",
          .numbers = std::move(numbers),
          .rule = "cumulative lengths begin at 0 and never fall, and the padded ones are as many as the real "
                  "ones and leave each document at least its real length",
          .hint = "0, then for each document the sum of the lengths up to its end"});
}

void require_cumulative(const char* name, const Offsets& offsets) {
  if (offsets.empty()) refuse_offsets(fmt::format("{} is empty", name));
  if (offsets.front() != 0) refuse_offsets(fmt::format("{} begins at {}", name, offsets.front()));
  const auto fall = std::is_sorted_until(offsets.begin(), offsets.end());
  if (fall != offsets.end())
    refuse_offsets(fmt::format("{}[{}] = {} follows {}", name, fall - offsets.begin(), *fall, *(fall - 1)));
}

std::vector<Document> documents_at(const Offsets& real, const Offsets& padded) {
  std::vector<Document> documents;
  for (std::size_t d = 0; d + 1 < real.size(); ++d) {
    const Document document = {padded[d], padded[d + 1] - padded[d], real[d + 1] - real[d]};
    if (document.real_length > document.length)
      refuse_offsets(fmt::format("document {} has {} rows and a padded length of {}", d, document.real_length,
                                 document.length));
    documents.push_back(document);
  }
  return documents;
}

std::vector<Document> documents_of(const Offsets& cu_seqlens, const Offsets& cu_seqlens_padded) {
  require_cumulative("cu_seqlens", cu_seqlens);
  if (cu_seqlens_padded.empty()) return documents_at(cu_seqlens, cu_seqlens);
  require_cumulative("cu_seqlens_padded", cu_seqlens_padded);
  if (cu_seqlens.size() != cu_seqlens_padded.size())
    refuse_offsets(fmt::format("{} offsets in cu_seqlens and {} in cu_seqlens_padded", cu_seqlens.size(),
                               cu_seqlens_padded.size()));
  return documents_at(cu_seqlens, cu_seqlens_padded);
}

std::int64_t rounded_up(std::int64_t length, std::int64_t unit) { return (length + unit - 1) / unit * unit; }

}  // namespace

SequenceCut::SequenceCut(std::vector<Document> documents, std::vector<Piece> pieces, int ranks)
    : documents_(std::move(documents)), pieces_(std::move(pieces)), ranks_(ranks) {
  const auto refuse_length = [&](std::string numbers, std::string hint) {
    refuse({.code = "sequence_cp",
            .option = "--context-parallel-size",
            .numbers = std::move(numbers),
            .rule = "there is at least one context-parallel rank, and the length of what is cut over several "
                    "is a multiple of 2 cp",
            .hint = std::move(hint)});
  };
  if (ranks < 1) refuse_length(fmt::format("{} ranks", ranks), "1 rank, which cuts nothing");
  const std::int64_t chunks = 2 * std::int64_t{ranks};
  std::string uneven, even;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const std::int64_t length = pieces_[p].length;
    length_ += length;
    if (ranks == 1 || length % chunks == 0) continue;
    const std::string name = pieces_.size() == 1 ? "the sequence" : fmt::format("document {}", p);
    uneven += fmt::format("{} has {} rows, ", name, length);
    if (even.empty()) even = fmt::format("{} with {} rows", name, rounded_up(length, chunks));
  }
  if (!uneven.empty()) refuse_length(fmt::format("{}and 2 cp = 2 * {} = {}", uneven, ranks, chunks), even);
}

SequenceCut SequenceCut::of_sequence(std::int64_t length, int ranks) {
  return {{{0, length, length}}, {{0, length}}, ranks};
}

SequenceCut SequenceCut::of_documents(const Offsets& cu_seqlens, const Offsets& cu_seqlens_padded,
                                      int ranks) {
  std::vector<Document> documents = documents_of(cu_seqlens, cu_seqlens_padded);
  std::vector<Piece> pieces;
  for (const Document& document : documents) pieces.push_back({document.begin, document.length});
  return {std::move(documents), std::move(pieces), ranks};
}

SequenceCut SequenceCut::of_packed_sequence(const Offsets& cu_seqlens, const Offsets& cu_seqlens_padded,
                                            int ranks) {
  std::vector<Document> documents = documents_of(cu_seqlens, cu_seqlens_padded);
  const std::int64_t length = documents.empty() ? 0 : documents.back().begin + documents.back().length;
  return {std::move(documents), {{0, length}}, ranks};
}

bool SequenceCut::has_padding() const {
  return std::any_of(documents_.begin(), documents_.end(),
                     [](const Document& document) { return document.real_length < document.length; });
}

std::vector<std::int64_t> SequenceCut::rows_of(int rank) const {
  SIM_CHECK(rank >= 0 && rank < ranks_);
  std::vector<std::int64_t> rows;
  const auto append = [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t row = begin; row < begin + count; ++row) rows.push_back(row);
  };
  for (const Piece& piece : pieces_) {
    if (ranks_ == 1) {
      append(piece.begin, piece.length);
      continue;
    }
    const std::int64_t chunk = piece.length / (2 * ranks_);
    append(piece.begin + rank * chunk, chunk);
    append(piece.begin + (2 * ranks_ - 1 - rank) * chunk, chunk);
  }
  return rows;
}

std::vector<std::int64_t> SequenceCut::positions_of(int rank) const {
  std::vector<std::int64_t> position_of_row;
  for (const Document& document : documents_)
    for (std::int64_t position = 0; position < document.length; ++position)
      position_of_row.push_back(position);
  std::vector<std::int64_t> positions;
  for (const std::int64_t row : rows_of(rank))
    positions.push_back(position_of_row[static_cast<std::size_t>(row)]);
  return positions;
}

std::vector<std::int64_t> SequenceCut::places_of_rows() const {
  std::vector<std::int64_t> places(static_cast<std::size_t>(length_));
  std::int64_t place = 0;
  for (int rank = 0; rank < ranks_; ++rank)
    for (const std::int64_t row : rows_of(rank)) places[static_cast<std::size_t>(row)] = place++;
  return places;
}

}  // namespace sim
