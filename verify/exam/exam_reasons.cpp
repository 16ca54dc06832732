#include "verify/exam/exam_reasons.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

struct WordsOfKind {
  FaultKind kind;
  std::vector<const char*> words;
};

const std::vector<WordsOfKind>& words_of_kinds() {
  static const std::vector<const char*> moved = {"too late", "too early", "is missing", "in place of",
                                                 "are being written by"};
  static const std::vector<const char*> blocks = {"in this order", "in other places",  "has the part of",
                                                  "rows are",      "columns are",      "blocks of",
                                                  "each block of", "used the rows of", "used the columns of"};
  static const std::vector<const char*> places = {"in this order", "in other places", "rows are",
                                                  "columns are",   "are shifted by",  "are transposed"};
  static const std::vector<WordsOfKind> table = {
      {FaultKind::skip, {"is missing", "are missing"}},
      {FaultKind::twice, {"too many", "times the serial", "times"}},
      {FaultKind::late, moved},
      {FaultKind::early, moved},
      {FaultKind::no_wait,
       {"too late", "is missing", "its own term", "had no part", "is not used", "is used on no rank"}},
      {FaultKind::own_term,
       {"is missing", "its own term", "had no part", "is not used", "is used on no rank"}},
      {FaultKind::drop_accumulate, {"is missing", "had no part", "adds to what was there"}},
      {FaultKind::op, {"reduction", "times", "divided by", "multiple of"}},
      {FaultKind::scale, {"times", "divided by", "multiple of", "multiples of", "multiplied by"}},
      {FaultKind::root, {"root", "broadcast", "rank 1"}},
      {FaultKind::peer, {"peer", "send ", "recv ", "unmatched"}},
      {FaultKind::swap_blocks, blocks},
      {FaultKind::next_block, blocks},
      {FaultKind::offset, places},
      {FaultKind::transpose, places},
      {FaultKind::stale,
       {"the step before", "of another", "before the last", "the input of the call before"}},
      {FaultKind::dtype, {"rounding", "precision"}},
      {FaultKind::truncate, {"differs in 1 of", "every wrong element", "nan", "retired", "no number"}},
      {FaultKind::nan, {"nan", "retired", "no number"}},
      {FaultKind::zero, {"zero", "had no part"}},
  };
  return table;
}

/// The words by which a text names a kind of fault.
std::vector<std::string> words_of(const Fault& fault) {
  if (fault.kind == FaultKind::wrong_group) return {" over " + fault.group};
  std::vector<std::string> words;
  if (fault.kind == FaultKind::op) words.push_back("(" + std::string(sim::name_of(fault.reduce_op)) + ")");
  for (const auto& [kind, own] : words_of_kinds())
    if (kind == fault.kind) words.insert(words.end(), own.begin(), own.end());
  return words;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

NamedReasons named_reasons(const Fault& fault, const std::string& found, const std::string& explanation,
                           int ranks) {
  const std::vector<std::string> words = words_of(fault);
  const std::string said = found + "\n" + explanation;
  const std::string& with_words = fault.kind == FaultKind::wrong_group ? explanation : said;
  const bool is_of_one = fault.where.place || !fault.where.ranks.empty();
  const bool exchanges_two = fault.kind == FaultKind::swap_blocks;  // the ranks of the first two places
  const bool names_all = has(said, "on all ranks") || has(said, "on no rank");
  const bool names_one = has(said, "on rank ") || has(said, "rank 1");
  return {.site = has(said, fault.site),
          .rank = ranks == 1 || (is_of_one ? names_one : exchanges_two || names_all || !has(said, "only: ")),
          .kind = std::any_of(words.begin(), words.end(),
                              [&](const auto& word) { return has(with_words, word); })};
}

std::string why_equivalent(const Fault& fault, std::int64_t met) {
  if (met == 0) return "no call that was made has the fault";
  switch (fault.kind) {
    case FaultKind::stale:
      return "each rank calls once at the site, or gives the same input again";
    case FaultKind::no_wait:
      return "nothing uses the result before the next call";
    case FaultKind::op:
      return "the terms of the group are such that both reductions give the same";
    case FaultKind::scale:
      return "the result is 0, or is not used";
    case FaultKind::truncate:
      return "the last elements are the same before and after the call, or are not used";
    case FaultKind::dtype:
      return "the input is exact in bf16";
    default:
      return "what the fault changes is not used, or is the same";
  }
}

}  // namespace verify
