#pragma once

/// Says which part of its work a rank begins (sim/tensor/work_part.h). Trainings, executors and models call
/// these.
///
/// Calls   a step lasts until the next one begins, the update of the parameters included. A pass lasts until
///         the next one begins or end_pass() is called, and a layer until the next one begins, end_layer()
///         is called, or the pass ends.

#include "sim/comm/rank.h"

namespace sim {

void begin_step(Rank& rank, std::int64_t step);
void begin_pass(Rank& rank, const char* pass, int microbatch, int chunk);
void end_pass(Rank& rank);
/// Begins a layer of the current pass.
void begin_layer(Rank& rank, int layer);
void end_layer(Rank& rank);

}  // namespace sim
