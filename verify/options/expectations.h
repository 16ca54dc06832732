#pragma once

/// What a scenario says its source prints, as text that is read here.
///
///   expect-groups      a kind and its groups: "dp [0,2],[1,3]"
///   expect-parameters  a published number of parameters: "1.7B"; it agrees with an exact count that, rounded
///                      or cut to the figure's digits, is the figure
///
/// Errors  bad_expectation.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verify {

class Settings;

struct ExpectedGroups {
  std::string kind;
  std::vector<std::vector<int>> groups;
};

/// The refusal that a scenario expects.
struct ExpectedRefusal {
  bool is_expected = false;
  std::string code;  // empty: any
};

struct Expectations {
  ExpectedRefusal refusal;
  std::optional<std::string> finding;  // the code that must be found first
  std::vector<ExpectedGroups> groups;
  std::optional<std::string> parameters;  // a figure, as printed
};

ExpectedRefusal expected_refusal(const Settings& settings);
Expectations expectations(const Settings& settings);

ExpectedGroups parse_expected_groups(const std::string& text);

/// A printed figure as a whole number of its last digit: "1.7B" is 17 units of 10^8.
struct Figure {
  std::int64_t digits = 0;
  std::int64_t unit = 1;
};

Figure parse_figure(const std::string& text);

bool agrees_with(const Figure& figure, std::int64_t count);

}  // namespace verify
