#pragma once

/// Says which part of its work a rank begins (sim/tensor/work_part.h). Executors and models call these; they
/// do nothing where the rank's device counts no work.
///
/// Calls   a pass lasts until the next one begins or end_pass() is called, and a layer until the next one
///         begins, end_layer() is called, or the pass ends.

#include "sim/comm/rank.h"

namespace sim {

void begin_pass(Rank& rank, const char* pass, int microbatch, int chunk);
void end_pass(Rank& rank);
/// Begins a layer of the current pass.
void begin_layer(Rank& rank, int layer);
void end_layer(Rank& rank);

}  // namespace sim
