#pragma once

/// Words of a launch that stop it: no parser takes them for the arguments that they are meant to be.
///
/// Errors  arguments_in_one_word: a name and its value between the same quotes; argument_without_dashes: the
///         name of an argument behind other signs than "--"; argument_before_script: an argument of Megatron
///         among those of torchrun; launcher_behind_script: nodes and processes of torchrun behind the
///         script.

#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

void require_words_in_place(const LaunchCommand& launch, const ShellValues& values);

}  // namespace verify
