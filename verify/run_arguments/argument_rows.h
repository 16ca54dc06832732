#pragma once

/// The four parts of the table of Megatron's arguments (argument_table.h), which has them in this order.

#include <vector>

#include "verify/run_arguments/argument_table.h"

namespace verify {

/// Returns the arguments that are used here, and what for.
std::vector<ArgumentRow> used_rows();

/// Returns the arguments about what goes on beside the training step, such as data, logging and checkpoints,
/// which have no effect on what is proved.
std::vector<ArgumentRow> rows_beside_training();

/// Returns the arguments of the training step that have no effect on what is proved, and why.
std::vector<ArgumentRow> rows_without_effect();

/// Returns the arguments that are not modelled, and what they leave without proof.
std::vector<ArgumentRow> rows_not_modelled();

}  // namespace verify
