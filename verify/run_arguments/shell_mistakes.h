#pragma once

/// Commands that a shell runs, and that do another thing than they seem to: a blank too many or too few, a
/// sign that is none of assignments, a '>' that compares nothing. The reader of a script follows what the
/// shell does, and a note says what that is.
///
/// Exact   A sentence is said of forms that nobody writes on purpose.

#include <string>
#include <vector>

#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

/// Returns what is odd about a command, as a sentence with its line; "" where nothing is. `words` are its
/// words with their values.
std::string mistake_in(const ShellCommand& command, const std::vector<ShellField>& words);

}  // namespace verify
