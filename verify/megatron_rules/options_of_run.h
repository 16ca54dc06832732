#pragma once

/// The options of this program that say what the arguments of a run say, with what Megatron takes for
/// arguments that are not given.

#include "verify/megatron_rules/run_of_file.h"

namespace verify {

/// Adds the options that the used arguments of a run stand for, and notes about what was made of them. The
/// ranks are those of the document.
void add_options(RunOfFile& run);

}  // namespace verify
