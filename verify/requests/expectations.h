#pragma once

/// What a scenario expects of its replay: a refusal, a finding, or what its source prints. The text of these
/// options is parsed here.
///
///   expect-groups      A group kind and its groups: "dp [0,2],[1,3]".
///   expect-parameters  A published number of parameters: "1.7B". It agrees with an exact count that gives
///                      this figure when it is rounded or cut to the digits of the figure.
///
/// Errors  bad_expectation: a text that cannot be parsed, or the code of a refusal where none is expected;
///         those of settings.h.

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
  std::string code;  // empty: any code
};

struct Expectations {
  ExpectedRefusal refusal;
  bool is_suspect = false;             // Megatron accepts the layout and then uses the wrong ranks
  std::optional<std::string> finding;  // the code that the first finding must have
  std::vector<ExpectedGroups> groups;
  std::optional<std::string> parameters;  // the figure, as printed
};

/// Returns the refusal that a scenario expects. It can be read even if its request is refused.
ExpectedRefusal expected_refusal(const Settings& settings);
Expectations expectations(const Settings& settings);

/// A printed figure as a whole number of units, where a unit is the value of its last digit: "1.7B" is 17
/// units of 10^8.
struct Figure {
  std::int64_t digits = 0;
  std::int64_t unit = 1;
};

Figure parse_figure(const std::string& text);

bool agrees_with(const Figure& figure, std::int64_t count);

}  // namespace verify
