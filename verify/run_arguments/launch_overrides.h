#pragma once

/// Keys of a configuration that a command gives its program in place of arguments, as Hydra reads them:
/// "+model.tensor_model_parallel_size=4". They are translated (dialects.h).

#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

/// Whether one of the words is such a key, and gives an argument that is used.
bool gives_overrides(const std::vector<ShellField>& words, const ShellValues& values);

/// Takes the arguments that the keys among the words give.
void take_overrides(const std::vector<ShellField>& words, const ShellValues& values, RunArguments& run);

}  // namespace verify
