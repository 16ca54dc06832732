#pragma once

/// The warnings about a run of --from whose program trains no GPT, by the name of its script and its
/// arguments: the model of such a run is taken for a GPT, and a run of inference for a training.
///
/// Exact   A script is known by the words of its name, such as those of pretrain_bert.py. A file without a
///         script, such as a log or a YAML file, is told by its arguments alone. Reinforcement learning
///         trains beside its inference.

#include <vector>

#include "sim/layout/warning.h"
#include "verify/megatron_rules/run_of_file.h"

namespace verify {

std::vector<sim::Warning> warnings_of_program(const RunOfFile& run);

}  // namespace verify
