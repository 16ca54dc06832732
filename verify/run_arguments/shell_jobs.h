#pragma once

/// The commands of a script that a shell of their own runs: those of a pipeline (`A=2 | cat`), and those
/// before an `&` (`A=2 &`). What they assign is gone behind them, as with the brackets of a subshell, and so
/// such brackets are put around them here, where they may change something of the shell. The pipeline behind
/// an `&&` or `||` becomes a group, all of which runs or does not.

#include <vector>

#include "verify/run_arguments/shell_words.h"

namespace verify {

std::vector<ShellCommand> with_shells_of_jobs(std::vector<ShellCommand> commands);

}  // namespace verify
