#pragma once

/// What `printf` prints: %s, %d, %i, %u, %x, %X, %o, and decimal numbers by %f, %e and %g, with flags, a
/// width and a precision, and the signs behind a backslash that a launch script uses.

#include <optional>
#include <string>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

/// Returns the text of a command `printf`; nothing for another format, and for words that are no numbers
/// where the format wants some.
std::optional<std::string> printed_text(const std::vector<ShellField>& words);

}  // namespace verify
