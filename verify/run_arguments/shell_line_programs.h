#pragma once

/// What `grep`, `sed` and `awk` print of the lines of a text, where a launch script takes a value out of one:
///
///   NL=$(echo "$CONFIG" | grep '^num_layers=' | cut -d= -f2)
///   NL=$(sed -n 's/^num_layers=//p' <<< "$CONFIG")
///   NL=$(awk -F= '/num_layers/ {print $2}' <<< "$CONFIG")
///
/// Followed  grep with -E -F -P -i -v -o -c -n -q -m; sed with -n -E, and programs of s, p and d behind a
///           number, `$` or /expression/; awk with -F, and one rule that prints fields, texts, NF and NR.
/// Exact     Nothing for other options and programs, and for expressions that shell_expression.h does not
///           follow. A `grep` that finds no line prints nothing, and fails: its output is not followed.

#include "verify/run_arguments/shell_lines.h"

namespace verify {

Printed lines_by_grep(Texts words, const std::string& text);
/// Whether grep finds a line; nothing where that is not known.
std::optional<bool> finds_by_grep(Texts words, const std::string& text);

Printed lines_by_sed(Texts words, const std::string& text);
Printed lines_by_awk(Texts words, const std::string& text);

}  // namespace verify
