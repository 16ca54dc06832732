#include "verify/properties/exam_reasons.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

/// The words by which a text names a kind of fault.
std::vector<std::string> words_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::skip:
      return {"is missing", "sum over the group is missing", "left_early", "missing_ranks", "never"};
    case FaultKind::twice:
      return {"too many", "times"};
    case FaultKind::late:
      return {"too late", "too early", "is missing"};
    case FaultKind::no_wait:
      return {"is missing", "its own term", "had no part"};
    case FaultKind::wrong_group:
      return {" over ", "is missing", "group"};
    case FaultKind::op:
      return {"max", "average", "sum", "divided by", "times"};
    case FaultKind::scale:
      return {"times", "divided by", "factor"};
    case FaultKind::root:
      return {"root", "rank"};
    case FaultKind::peer:
      return {"peer", " to ", " from "};
    case FaultKind::swap_blocks:
    case FaultKind::next_block:
      return {"in this order", "belongs", "places", "rank"};
    case FaultKind::own_term:
      return {"is missing", "its own term", "had no part", "holds"};
    case FaultKind::stale:
      return {"stale", "before", "earlier"};
    case FaultKind::dtype:
      return {"rounding", "precision"};
    case FaultKind::truncate:
      return {"zero", "differs in", "rows"};
    case FaultKind::nan:
      return {"nan", "NaN", "retired", "no number"};
    case FaultKind::zero:
      return {"zero"};
    case FaultKind::offset:
    case FaultKind::transpose:
      return {"in this order", "places", "rows", "columns"};
    case FaultKind::drop_accumulate:
      return {"is missing", "had no part", "term"};
  }
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

NamedReasons named_reasons(const Fault& fault, const std::string& said, int ranks) {
  const std::vector<std::string> words = words_of(fault.kind);
  const bool is_of_one = fault.where.place || !fault.where.ranks.empty();
  const bool names_one = has(said, "on rank ") || has(said, "rank 1");
  return {.site = has(said, fault.site),
          .rank = ranks == 1 || (is_of_one ? names_one : !has(said, "only: ")),
          .kind = std::any_of(words.begin(), words.end(), [&](const auto& word) { return has(said, word); })};
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
