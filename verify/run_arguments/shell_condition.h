#pragma once

/// Whether a command of a shell script succeeds, where that follows from values that are known.
///
/// Calls   [ ... ], [[ ... ]] and test, with = == != -eq -ne -lt -le -gt -ge -z -n -v, a word alone, ! -a -o,
///         and && || and brackets inside of [[ ... ]]; patterns of [[ ... ]] and `case` (shell_pattern.h); =~
///         (shell_expression.h), which gives BASH_REMATCH what it finds;
///         ((...)) of known numbers; true, false and ":". A command of assignments alone succeeds.
/// Exact   The result is empty for every other command, for files, and where a value is not known:
///         nothing is guessed.

#include <optional>

#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

/// The variable to which =~ gives what it finds.
inline constexpr const char* kFoundByExpression = "BASH_REMATCH";

/// Whether a command is a test with =~.
bool finds_by_expression(const ShellCommand& command);

/// Returns whether the command succeeds, with its "!".
std::optional<bool> shell_condition(const ShellCommand& command, ShellValues& values);

/// Returns the variable of which the command asks whether it is empty ([ -z $NAME ]), where nothing in the
/// file gives it a value; "" for every other command.
std::string name_tested_as_empty(const ShellCommand& command, const ShellValues& values);

/// Returns whether one of the patterns of a `case` is that of the subject.
std::optional<bool> shell_pattern_fits(const std::vector<ShellWord>& patterns, const ShellWord& subject,
                                       ShellValues& values);

}  // namespace verify
