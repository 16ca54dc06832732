#pragma once

/// Whether a test of a shell succeeds: [ ... ], [[ ... ]], `test` and the patterns of a `case`.
///
/// Exact   There is no answer where a value is not known, and for what asks the machine (-f x) or has a
///         regular expression (=~).

#include <optional>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

/// Whether one of two succeeds, both do, and the opposite.
ShellStatus either(const ShellStatus& a, const ShellStatus& b);
ShellStatus both(const ShellStatus& a, const ShellStatus& b);
ShellStatus opposite(ShellStatus status);

/// Asks a test. `is_double` is [[ ... ]]; the words are those between its brackets.
ShellStatus shell_test(std::vector<ShellWord> words, bool is_double, ShellValues& values);

/// Whether a text fits one of the patterns of a `case`.
std::optional<bool> fits_one_of(const std::vector<ShellWord>& patterns, const ShellField& text,
                                ShellValues& values);

}  // namespace verify
