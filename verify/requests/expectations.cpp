#include "verify/requests/expectations.h"

#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <regex>
#include <stdexcept>
#include <utility>

#include "sim/layout/kind_table.h"
#include "verify/output/json.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

int rank_number(const Json& value) {
  const bool is_rank =
      value.is_integer() && value.integer() >= 0 && value.integer() <= std::numeric_limits<int>::max();
  if (is_rank) return static_cast<int>(value.integer());
  throw std::invalid_argument(value.dump() + " is not a rank");
}

ExpectedGroups parse_expected_groups(const std::string& text) {
  const std::size_t bracket = text.find('[');
  ExpectedGroups expected{text.substr(0, bracket), {}};
  expected.kind.erase(expected.kind.find_last_not_of(' ') + 1);
  try {
    if (bracket == std::string::npos || expected.kind.empty())
      throw std::invalid_argument("a group kind or its list is missing");
    const Json lists = parse_json("[" + text.substr(bracket) + "]");
    for (const Json& list : lists.elements()) {
      if (!list.is_array()) throw std::invalid_argument(list.dump() + " is not a list");
      expected.groups.emplace_back();
      for (const Json& value : list.elements()) expected.groups.back().push_back(rank_number(value));
    }
  } catch (const std::exception& error) {
    refuse_by("bad_expectation/groups", "--expect-groups",
              fmt::format("'{}': {}", text.substr(0, 100), error.what()), "expect-groups = dp [0,2],[1,3]");
  }
  if (sim::find_kind(expected.kind) == nullptr) {
    const std::string nearest = nearest_name(expected.kind, sim::all_kind_names());
    refuse_by("bad_expectation/groups", "--expect-groups",
              fmt::format("there is no group kind '{}'", expected.kind),
              nearest.empty() ? "shardproof list" : "expect-groups = " + nearest + " ...");
  }
  return expected;
}

}  // namespace

ExpectedRefusal expected_refusal(const Settings& settings) {
  return {settings.choice("expect") == "refused", settings.text("expect-refusal", "")};
}

Expectations expectations(const Settings& settings) {
  Expectations expected{.refusal = expected_refusal(settings),
                        .is_suspect = settings.choice("expect") == "suspect",
                        .finding = {},
                        .groups = {},
                        .parameters = {}};
  if (settings.has("expect-refusal") && !expected.refusal.is_expected)
    refuse_by("bad_expectation/refusal", "--expect-refusal", expected.refusal.code);
  if (settings.has("expect-finding")) expected.finding = settings.text("expect-finding", "");
  for (const std::string& text : settings.texts("expect-groups"))
    expected.groups.push_back(parse_expected_groups(text));
  if (settings.has("expect-parameters")) {
    expected.parameters = settings.text("expect-parameters", "");
    parse_figure(*expected.parameters);
  }
  return expected;
}

Figure parse_figure(const std::string& text) {
  constexpr std::size_t kMostLetters = 12;
  constexpr std::int64_t kMostDigits = 1'000'000;
  static const std::regex kFigure("([0-9]+)[.]?([0-9]*)([MBT])");
  std::smatch match;
  Figure figure;
  bool is_figure = text.size() <= kMostLetters && std::regex_match(text, match, kFigure);
  if (is_figure) {
    figure.digits = std::stoll(match.str(1) + match.str(2));
    figure.unit = match.str(3) == "M" ? 1'000'000 : match.str(3) == "B" ? 1'000'000'000 : 1'000'000'000'000;
    for (auto i = match.length(2); i > 0; --i) figure.unit /= 10;
    is_figure = figure.unit >= 1 && figure.digits <= kMostDigits;
  }
  if (!is_figure) refuse_by("bad_expectation/figure", "--expect-parameters", text);
  return figure;
}

bool agrees_with(const Figure& figure, std::int64_t count) {
  const std::int64_t cut = count / figure.unit;
  const std::int64_t rounded = cut + (count % figure.unit * 2 >= figure.unit ? 1 : 0);
  return figure.digits == cut || figure.digits == rounded;
}

}  // namespace verify
