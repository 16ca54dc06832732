#pragma once

/// What a command substitution prints, where its commands are conditions, assignments, functions of the
/// script, and `echo`, `printf` (shell_printf.h), `expr` of two numbers and `seq`. Other commands may take
/// their output apart, or a here-document or a here-string (shell_filters.h):
///
///   SP_ARG=$([ "$TP" -gt 1 ] && echo "--sequence-parallel")
///   EP=$(echo $SIZES | cut -d, -f2)
///   A=$(if [[ $FP8 == true ]]; then echo "--fp8-format hybrid"; fi)
///
/// Calls   `values` has the same variables before and after.
/// Exact   The text is empty where another command may run, where a condition is not known, and where the
///         output goes elsewhere. What is printed may hold marks of values that are not known.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

class ShellValues;
struct ShellCommand;
struct ShellField;

struct ShellOutput {
  std::optional<std::string> text;  // without line breaks at its end
  std::string asked;                // the variable that would tell a condition; "" where none would
  std::string line_breaks = "";     // those at the end of what is printed
};

/// `source` is the whole substitution: "$(...)" or "`...`".
ShellOutput shell_output(std::string_view source, int line, ShellValues& values);

/// Returns what commands print that stand before a '|'.
ShellOutput shell_output(std::span<const ShellCommand> commands, ShellValues& values);

}  // namespace verify
