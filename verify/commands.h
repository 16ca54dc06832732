#pragma once

/// The commands of the program. Each takes what the user said, writes its result, returns an exit code
/// (output.h).
///
///   groups  every process group of a layout
///   layers  which layers live on which pipeline rank and chunk
///   replay  the main job: proves scenarios, one row a check
///   list    what there is: scenarios, checks, kinds, commands
///
/// The JSON that others parse is described in README.md.

#include "verify/output.h"
#include "verify/settings.h"

namespace verify {

/// Commands that show one thing take at most one scenario; returns its settings under those of the command
/// line.
Settings single_scenario(const CommandLine& line);

int run_groups(const CommandLine& line, const Output& output);
int run_layers(const CommandLine& line, const Output& output);
int run_replay(const CommandLine& line, const Output& output);
int run_list(const CommandLine& line, const Output& output);

}  // namespace verify
