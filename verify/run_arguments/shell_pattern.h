#pragma once

/// The patterns of the shell, as in ${NAME##pattern}, `case` and [[ $NAME == pattern ]].
///
/// Shapes  A pattern has * ? and [...], and a backslash before each character that stands for itself alone.
/// Exact   The result is empty where only a shell could tell it: for the brackets of extended patterns, such
///         as +(a|b), for classes, such as [[:digit:]], and for texts beyond the limits below.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "verify/run_arguments/shell_words.h"

namespace verify {

inline constexpr std::size_t kMostPatternBytes = 128;
inline constexpr std::size_t kMostMatchedBytes = 1024;

/// Returns the pattern that a text alone fits.
std::string pattern_of_text(std::string_view text);

/// Whether all of a text fits a pattern.
std::optional<bool> fits_shell_pattern(std::string_view text, std::string_view pattern);

/// Returns the text with another one in the place of the parts that fit a pattern, at the place that a change
/// of cut_begin to replace_end names.
std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 ShellChange change, std::string_view replacement);

}  // namespace verify
