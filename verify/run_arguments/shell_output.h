#pragma once

/// What a command substitution prints, where its commands are conditions and `echo` alone:
///
///   SP_ARG=$([ "$TP" -gt 1 ] && echo "--sequence-parallel")
///   A=$(if [[ $FP8 == true ]]; then echo "--fp8-format hybrid"; fi)
///
/// Calls   `values` has the same variables before and after.
/// Exact   The text is empty where another command may run, where a condition is not known, and where the
///         output goes elsewhere. What is printed may hold marks of values that are not known.

#include <optional>
#include <string>
#include <string_view>

namespace verify {

class ShellValues;

struct ShellOutput {
  std::optional<std::string> text;  // without line breaks at its end
  std::string asked;                // the variable that would tell a condition; "" where none would
};

/// `source` is the whole substitution: "$(...)" or "`...`".
ShellOutput shell_output(std::string_view source, int line, ShellValues& values);

}  // namespace verify
