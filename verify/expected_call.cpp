#include "verify/expected_call.h"

#include <algorithm>
#include <fmt/format.h>

namespace verify {

namespace {

/// lengths[i][j]: the longest list that both expected[i..] and made[j..] contain.
std::vector<std::vector<std::size_t>> common_lengths(const std::vector<ExpectedCall>& expected,
                                                     const std::vector<sim::CallRecord>& made) {
  std::vector<std::vector<std::size_t>> lengths(expected.size() + 1,
                                                std::vector<std::size_t>(made.size() + 1));
  for (std::size_t i = expected.size(); i-- > 0;) {
    for (std::size_t j = made.size(); j-- > 0;) {
      lengths[i][j] = expected[i] == as_expected(made[j]) ? lengths[i + 1][j + 1] + 1
                                                          : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

std::string place_of(const std::vector<sim::CallRecord>& made, std::size_t next) {
  if (next > 0) return fmt::format("after {}", sim::text_of(made[next - 1].site));
  return made.empty() ? "no call was made" : fmt::format("before {}", sim::text_of(made.front().site));
}

}  // namespace

ExpectedCall as_expected(const sim::CallRecord& call) {
  return {.site = std::string(call.site.name),
          .operation = call.operation,
          .elements = call.count,
          .dtype = call.dtype,
          .group = call.group->kind};
}

std::string text_of(const ExpectedCall& call) {
  const bool says_dtype = sim::moves_data(call.operation) && call.dtype != sim::DType::field;
  return fmt::format("{} '{}' of {}{}{}", sim::name_of(call.operation), call.site, call.elements,
                     says_dtype ? fmt::format(" {}", sim::name_of(call.dtype)) : "",
                     call.group == "tp" ? "" : " over " + call.group);
}

std::vector<std::string> differences(const std::vector<ExpectedCall>& expected,
                                     const std::vector<sim::CallRecord>& made) {
  const auto lengths = common_lengths(expected, made);
  std::vector<std::string> phrases;
  std::size_t i = 0, j = 0;
  while (i < expected.size() || j < made.size()) {
    const bool has_both = i < expected.size() && j < made.size();
    if (has_both && expected[i] == as_expected(made[j])) {
      ++i, ++j;
    } else if (has_both && lengths[i + 1][j + 1] == lengths[i][j] && expected[i].site == made[j].site.name) {
      phrases.push_back(fmt::format("{} is {}, at {}", text_of(expected[i]), text_of(as_expected(made[j])),
                                    sim::text_of(made[j].site)));
      ++i, ++j;
    } else if (j == made.size() || (has_both && lengths[i + 1][j] == lengths[i][j])) {
      phrases.push_back(fmt::format("{} is missing ({})", text_of(expected[i]), place_of(made, j)));
      ++i;
    } else {
      phrases.push_back(fmt::format("{} is one too many, at {}", text_of(as_expected(made[j])),
                                    sim::text_of(made[j].site)));
      ++j;
    }
  }
  return phrases;
}

}  // namespace verify
