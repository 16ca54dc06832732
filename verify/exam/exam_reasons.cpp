#include "verify/exam/exam_reasons.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

/// The words by which a text names a kind of fault.
std::vector<std::string> words_of(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::skip:
      return {"is missing", "are missing"};
    case FaultKind::twice:
      return {"too many", "times the serial", "times"};
    case FaultKind::late:
    case FaultKind::early:
      return {"too late", "too early", "is missing", "in place of", "are being written by"};
    case FaultKind::no_wait:
      return {"too late", "is missing", "its own term", "had no part", "is not used", "is used on no rank"};
    case FaultKind::own_term:
      return {"is missing", "its own term", "had no part", "is not used", "is used on no rank"};
    case FaultKind::drop_accumulate:
      return {"is missing", "had no part", "adds to what was there"};
    case FaultKind::wrong_group:
      return {" over " + fault.group};
    case FaultKind::op:
      return {"(" + std::string(sim::name_of(fault.reduce_op)) + ")", "reduction", "times", "divided by",
              "multiple of"};
    case FaultKind::scale:
      return {"times", "divided by", "multiple of", "multiples of", "multiplied by"};
    case FaultKind::root:
      return {"root", "broadcast", "rank 1"};
    case FaultKind::peer:
      return {"peer", "send ", "recv ", "unmatched"};
    case FaultKind::swap_blocks:
    case FaultKind::next_block:
      return {"in this order", "in other places", "has the part of",  "rows are",           "columns are",
              "blocks of",     "each block of",   "used the rows of", "used the columns of"};
    case FaultKind::offset:
    case FaultKind::transpose:
      return {"in this order", "in other places", "rows are",
              "columns are",   "are shifted by",  "are transposed"};
    case FaultKind::stale:
      return {"the step before", "of another", "before the last", "the input of the call before"};
    case FaultKind::dtype:
      return {"rounding", "precision"};
    case FaultKind::truncate:
      return {"differs in 1 of", "every wrong element", "nan", "retired", "no number"};
    case FaultKind::nan:
      return {"nan", "retired", "no number"};
    case FaultKind::zero:
      return {"zero", "had no part"};
  }
  return {};
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
