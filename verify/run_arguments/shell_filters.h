#pragma once

/// What commands print of their words and of the text that they get, where a launch script takes a name or a
/// size apart with them: `basename` and `dirname` of a path, `python -c 'print(4*2)'` and
/// `awk 'BEGIN{print 4*2}'`; and of a text `cut`, `tr`, `head`, `tail`, `wc`, `bc`, `xargs` and `cat`, and
/// `grep`, `sed` and `awk` (shell_line_programs.h).
///
/// Exact   Nothing for other commands, for options that are not followed, for patterns and numbers that are
///         not plain, and where a word or the text is not known: it has marks, or is no ASCII.

#include <optional>
#include <string>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

/// Returns what a command that gets no text prints.
std::optional<std::string> printed_without_input(const std::vector<ShellField>& words);

/// Whether a `grep` that gets this text finds a line in it; nothing for other commands.
std::optional<bool> found_by_grep(const std::vector<ShellField>& words, const std::string& text);

/// Returns what a command prints that gets this text, as from a pipe.
std::optional<std::string> filtered(const std::vector<ShellField>& words, const std::string& text);

}  // namespace verify
