#pragma once

/// The regular expressions of [[ TEXT =~ EXPRESSION ]], `grep`, `sed` and `awk`.
///
/// Exact   Nothing where the expression is none, is long, or has repetitions {...}, more than eight +, or
///         references to what it has found: to look for those may take unbounded time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

/// A part of a text. `begin` is npos where a bracket of the expression has found nothing.
struct FoundPlace {
  std::size_t begin = std::string::npos;
  std::size_t length = 0;
};

/// Returns the part of the text that fits an extended expression of POSIX, and behind it what each bracket
/// has found; no part where nothing fits. `goes_on`: the text is the rest of a line, whose begin it does not
/// have. An expression of plain signs is looked for in texts of any length.
std::optional<std::vector<FoundPlace>> places_by_expression(std::string_view text,
                                                            const std::string& expression, bool goes_on);

/// Returns the same parts as texts.
std::optional<std::vector<std::string>> found_by_expression(const std::string& text,
                                                            const std::string& expression);

/// Whether an expression has a backslash that programs read in several ways: before a letter other than those
/// of \w, \W, \s, \S, \b and \B, or in a set.
bool has_other_escapes(std::string_view expression);

/// Returns a basic expression of POSIX, as `grep` and `sed` take it, as an extended one.
std::string extended_expression(std::string_view basic);

}  // namespace verify
