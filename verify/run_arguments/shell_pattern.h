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

namespace verify {

inline constexpr std::size_t kMostPatternBytes = 128;
inline constexpr std::size_t kMostMatchedBytes = 4096;
inline constexpr std::size_t kMostReplacedBytes = 1024;

/// Returns the pattern that a text alone fits.
std::string pattern_of_text(std::string_view text);

/// Whether all of a text fits a pattern.
std::optional<bool> fits_shell_pattern(std::string_view text, std::string_view pattern);

/// The part of a text that is cut or replaced: the shortest or longest one that fits at its beginning or
/// its end, the first one anywhere, or all.
enum class PatternPlace { shortest_begin, longest_begin, shortest_end, longest_end, first, all };

/// Returns the text with another one in the place of the parts that fit a pattern. It takes as many steps as
/// the bytes of the text, squared where parts are replaced, times those of the pattern.
std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 PatternPlace place, std::string_view replacement);

}  // namespace verify
