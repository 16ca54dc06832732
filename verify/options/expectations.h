#pragma once

/// What a scenario says its source prints, as text that is read here.
///
///   expect-groups      a kind and its groups: "dp [0,2],[1,3]"
///   expect-parameters  a published number of parameters: "1.7B"; it agrees with an exact count that, rounded
///                      or cut to the figure's digits, is the figure
///
/// Errors  bad_expectation.

#include <cstdint>
#include <string>
#include <vector>

namespace verify {

struct ExpectedGroups {
  std::string kind;
  std::vector<std::vector<int>> groups;
};

ExpectedGroups parse_expected_groups(const std::string& text);

/// A printed figure as a whole number of its last digit: "1.7B" is 17 units of 10^8.
struct Figure {
  std::int64_t digits = 0;
  std::int64_t unit = 1;
};

Figure parse_figure(const std::string& text);

bool agrees_with(const Figure& figure, std::int64_t count);

/// Refuses what a scenario expects, for what is wrong with saying so.
[[noreturn]] void refuse_expectation(const std::string& option, std::string given, std::string rule,
                                     std::string hint);

}  // namespace verify
