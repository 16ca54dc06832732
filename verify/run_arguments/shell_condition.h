#pragma once

/// Whether a test of a shell succeeds: [ ... ], [[ ... ]], `test` and the patterns of a `case`, and what
/// patterns cut from a text, as in ${NAME##pattern}.
///
/// Shapes  A pattern has * ? and [...], and a backslash before each character that stands for itself alone.
/// Exact   There is no answer where a value is not known, and for what asks the machine (-f x), for regular
///         expressions (=~), extended patterns, such as +(a|b), classes, such as [[:digit:]], and texts
///         beyond the limits below.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

inline constexpr std::size_t kMostPatternBytes = 64, kMostMatchedBytes = 256, kMostReplacedBytes = 128;

/// Whether one of two succeeds, both do, and the opposite.
ShellStatus either(const ShellStatus& a, const ShellStatus& b);
ShellStatus both(const ShellStatus& a, const ShellStatus& b);
ShellStatus opposite(ShellStatus status);

/// Asks a test. `is_double` is [[ ... ]]; the words are those between its brackets.
ShellStatus shell_test(const std::vector<ShellWord>& words, bool is_double, ShellValues& values);

/// Whether a text fits one of the patterns of a `case`.
std::optional<bool> fits_one_of(const std::vector<ShellWord>& patterns, const ShellField& text,
                                ShellValues& values);

/// Returns the pattern that a text alone fits.
std::string pattern_of_text(std::string_view text);

/// Whether all of a text fits a pattern.
std::optional<bool> fits_shell_pattern(std::string_view text, std::string_view pattern);

/// Returns the text with another one in the place of the parts that fit a pattern. The change says which: #
/// and % (the shortest part at the begin and at the end), ##, %%, /# and /% (the longest), / (the first), //
/// (all).
std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 std::string_view change, std::string_view other);

}  // namespace verify
