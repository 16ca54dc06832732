#include "verify/cases/expected_call.h"

#include <algorithm>
#include <fmt/format.h>

namespace verify {

namespace {

/// What remains of two lists without their common prefix and suffix. Both ranges start at `begin`.
struct Parting {
  std::size_t begin = 0;
  std::size_t expected_end = 0;
  std::size_t made_end = 0;
};

Parting parting(const std::vector<ExpectedCall>& expected, const std::vector<ExpectedCall>& made) {
  Parting parting{0, expected.size(), made.size()};
  while (parting.begin < std::min(expected.size(), made.size()) &&
         expected[parting.begin] == made[parting.begin])
    ++parting.begin;
  while (std::min(parting.expected_end, parting.made_end) > parting.begin &&
         expected[parting.expected_end - 1] == made[parting.made_end - 1])
    --parting.expected_end, --parting.made_end;
  return parting;
}

/// Returns lengths, where lengths[i][j] is the length of the longest common subsequence of expected[i..] and
/// made[j..].
std::vector<std::vector<std::size_t>> common_lengths(const std::vector<ExpectedCall>& expected,
                                                     const std::vector<ExpectedCall>& made) {
  std::vector<std::vector<std::size_t>> lengths(expected.size() + 1,
                                                std::vector<std::size_t>(made.size() + 1));
  for (std::size_t i = expected.size(); i-- > 0;) {
    for (std::size_t j = made.size(); j-- > 0;) {
      lengths[i][j] =
          expected[i] == made[j] ? lengths[i + 1][j + 1] + 1 : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/// Returns the calls from `begin` to `end`, at most kMostCompared of them.
std::vector<ExpectedCall> compared(const std::vector<ExpectedCall>& calls, std::size_t begin,
                                   std::size_t end) {
  const auto first = calls.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(std::min(end - begin, kMostCompared))};
}

/// One difference: an expected call that is missing before the made call at place `at`, or an unexpected call
/// that was made at `at`. If both are set, one call was made instead of the other.
struct Edit {
  const ExpectedCall* missing = nullptr;
  const ExpectedCall* made = nullptr;
  std::size_t at = 0;
  std::size_t belongs_at = 0;  // if the call was moved: the place where it is expected
  bool is_moved() const { return missing != nullptr && made != nullptr && *missing == *made; }
};

std::vector<Edit> edits(const std::vector<ExpectedCall>& expected, const std::vector<ExpectedCall>& made) {
  const auto lengths = common_lengths(expected, made);
  // Nothing is known about the calls beyond the end of a list that was cut off.
  const auto is_known = [](std::size_t at, const std::vector<ExpectedCall>& calls) {
    return at < calls.size() || at < kMostCompared;
  };
  std::vector<Edit> all;
  std::size_t i = 0, j = 0;
  while ((i < expected.size() || j < made.size()) && is_known(i, expected) && is_known(j, made)) {
    const bool has_both = i < expected.size() && j < made.size();
    if (has_both && expected[i] == made[j]) {
      ++i, ++j;
    } else if (has_both && lengths[i + 1][j + 1] == lengths[i][j] && expected[i].site == made[j].site) {
      all.push_back({&expected[i], &made[j], j});
      ++i, ++j;
    } else if (j == made.size() || (has_both && lengths[i + 1][j] == lengths[i][j])) {
      all.push_back({&expected[i], nullptr, j});
      ++i;
    } else {
      all.push_back({nullptr, &made[j], j});
      ++j;
    }
  }
  return all;
}

/// Merges a call that is missing in one place with an equal call that is extra in another: the call was
/// moved.
std::vector<Edit> with_moves(std::vector<Edit> all) {
  std::vector<Edit> result;
  for (auto edit = all.begin(); edit != all.end(); ++edit) {
    if (edit->missing == nullptr && edit->made == nullptr) continue;  // the second half of a move
    const auto other = std::find_if(edit + 1, all.end(), [&](const Edit& later) {
      return edit->made == nullptr ? later.missing == nullptr && later.made && *later.made == *edit->missing
                                   : edit->missing == nullptr && later.made == nullptr && later.missing &&
                                         *later.missing == *edit->made;
    });
    if (other == all.end()) {
      result.push_back(*edit);
    } else if (edit->made == nullptr) {
      result.push_back({edit->missing, other->made, other->at, edit->at});
      *other = {};
    } else {
      result.push_back({other->missing, edit->made, edit->at, other->at});
      *other = {};
    }
  }
  return result;
}

std::string place_of(const sim::CallLog& made, std::size_t next) {
  if (next > 0) return fmt::format("after {}", sim::text_of(made[next - 1].site));
  return made.empty() ? "no call was made" : fmt::format("before {}", sim::text_of(made.front().site));
}

std::string text_of_place(const ExpectedCall& call) {
  if (call.root_or_peer < 0) return "";
  const char* how = call.operation == sim::Operation::send   ? "to"
                    : call.operation == sim::Operation::recv ? "from"
                                                             : "root";
  return fmt::format(", {} {}", how, call.root_or_peer);
}

/// What the text of a call says although it is as usual, because another call differs in it.
struct Says {
  bool group = false;      // the tensor-model-parallel group
  bool reduction = false;  // a sum
};

std::string text_of_call(const ExpectedCall& call, Says says) {
  const bool says_dtype = sim::moves_data(call.operation) && call.dtype != sim::DType::field;
  const bool says_reduction =
      (says.reduction && sim::has_reduce_op(call.operation)) || call.reduce_op != sim::ReduceOp::sum;
  const bool says_group = says.group || call.group != "tp";
  return fmt::format("{}{} '{}' of {}{}{}{}", sim::name_of(call.operation),
                     says_reduction ? fmt::format("({})", sim::name_of(call.reduce_op)) : "", call.site,
                     call.elements, says_dtype ? fmt::format(" {}", sim::name_of(call.dtype)) : "",
                     says_group ? " over " + call.group : "", text_of_place(call));
}

std::string what_differs(const Edit& edit) {
  if (edit.made == nullptr) return text_of(*edit.missing) + " is missing";
  if (edit.missing == nullptr) return text_of(*edit.made) + " is one too many";
  if (edit.is_moved())
    return fmt::format("{} comes too {}", text_of(*edit.made), edit.at < edit.belongs_at ? "early" : "late");
  const Says says{.group = edit.missing->group != edit.made->group,
                  .reduction = edit.missing->reduce_op != edit.made->reduce_op};
  return fmt::format("{} is {}", text_of_call(*edit.missing, says), text_of_call(*edit.made, says));
}

/// The places in an edit are relative to `begin`.
std::string where_differs(const Edit& edit, const sim::CallLog& made, std::size_t begin) {
  if (edit.made == nullptr) return place_of(made, begin + edit.at);
  const std::string at = fmt::format("at {}", sim::text_of(made[begin + edit.at].site));
  if (!edit.is_moved()) return at;
  const std::size_t next = begin + edit.belongs_at;
  const bool has_both = next > 0 && next < made.size();
  return fmt::format("{}, and belongs {}{}", at, place_of(made, next),
                     has_both ? fmt::format(" and before {}", sim::text_of(made[next].site)) : "");
}

}  // namespace

ExpectedCall as_expected(const sim::CallRecord& call) {
  return {.site = std::string(call.site.name),
          .operation = call.operation,
          .elements = call.count,
          .dtype = call.dtype,
          .group = call.group->kind,
          .root_or_peer = call.root_or_peer,
          .reduce_op = call.reduce_op};
}

std::string text_of(const ExpectedCall& call) { return text_of_call(call, {}); }

std::vector<CallDifference> differences(const std::vector<ExpectedCall>& all_expected,
                                        const sim::CallLog& records) {
  std::vector<ExpectedCall> all_made;
  for (const sim::CallRecord& record : records) all_made.push_back(as_expected(record));
  const Parting part = parting(all_expected, all_made);
  const std::vector<ExpectedCall> expected = compared(all_expected, part.begin, part.expected_end);
  const std::vector<ExpectedCall> made = compared(all_made, part.begin, part.made_end);
  std::vector<CallDifference> found;
  for (const Edit& edit : with_moves(edits(expected, made)))
    found.push_back({what_differs(edit), where_differs(edit, records, part.begin)});
  return found;
}

}  // namespace verify
