#pragma once

/// The regular expressions of [[ TEXT =~ EXPRESSION ]], which are POSIX's extended ones.
///
/// Exact   Nothing where the expression is none, is long, or has repetitions {...}, more than eight +, or
///         references to what it has found: to look for those may take unbounded time.

#include <optional>
#include <string>
#include <vector>

namespace verify {

/// Returns the part of the text that fits, and behind it what each bracket has found; no part where nothing
/// fits.
std::optional<std::vector<std::string>> found_by_expression(const std::string& text,
                                                            const std::string& expression);

}  // namespace verify
