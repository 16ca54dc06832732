#pragma once

/// What the words of a launch say as the arguments of a run: those behind the training script, and the world
/// that its launcher or, of slime, its own arguments give it.
///
/// Errors  run_file_size: more than kMostRunArguments expansions that are not known.

#include <optional>
#include <string>
#include <string_view>

#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

/// Takes the arguments of the training script: each flag with the words up to the next one. ms-swift gives
/// the world in variables.
void take_arguments(const LaunchCommand& launch, const ShellValues& values, LaunchWorld& world,
                    RunArguments& run);

/// Takes the number of ranks and the GPUs of a node; what is not known of them becomes unresolved.
void take_world(const LaunchWorld& world, const ShellValues& values, RunArguments& run);

/// Whether a launch gives its program keys of a configuration in place of arguments, as Hydra reads them
/// ("+model.tensor_model_parallel_size=4"), of which one gives an argument that is used.
bool gives_overrides(const ShellFields& words, const ShellValues& values);

/// Takes the arguments that the keys among the words give. They are translated (dialects.h).
void take_overrides(const ShellFields& words, const ShellValues& values, RunArguments& run);

/// Returns the value of a variable that a text hands to a program in another way than by an assignment: in
/// JSON ("NAME": "1"), or behind an option of a launcher (-x NAME=1, --env NAME=1, --export=ALL,NAME=1).
std::optional<std::string> value_handed_on(std::string_view text, std::string_view name);

}  // namespace verify
