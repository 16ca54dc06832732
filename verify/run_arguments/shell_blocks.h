#pragma once

/// What a shell refuses about the blocks of a script before it runs any command: a block that begins and
/// does not end, an end without a begin, an `if` without its `then`, a loop without its `do`, and a pattern
/// of a `case` behind commands that do not end with ";;".
///
/// Exact   Text that is no script may have the words, too. Without a first line "#!", a block counts only
///         where a second word of it is there.
/// Errors  script_syntax: the line, what is missing, and the word that mends it.

#include "verify/run_arguments/shell_words.h"

namespace verify {

/// The line of the end of a function whose brace does not close in the text.
inline constexpr int kLineOfNoBrace = 0;

/// `begins_as_script`: the first line of the text names its shell.
void require_whole_blocks(const ShellScript& script, bool begins_as_script);

}  // namespace verify
