#pragma once

/// The memory of what a scenario asks for: its model on its layout, with its schedule.
///
/// Calls   Without a batch, the schedule has twice as many microbatches as a chunk takes at a time, because a
///         larger batch has no more of them in flight.
///         Neither has one that is too long to be walked.
/// Errors  memory_not_counted: a model of more layers, experts or parameters than can be listed, or what is
///         no training step of a GPT.

#include <string>

#include "verify/memory/model_memory.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Returns why no memory can be counted; "" if it can. `missing` of sizes is the caller's.
std::string why_no_memory(const ScenarioRequest& request);

/// Refuses a scenario whose memory cannot be counted, and says what to try.
void require_memory(const Scenario& scenario, const ScenarioRequest& request);

/// Returns why the activations of a request are not counted; "" where only their size forbids it.
std::string why_no_activations(const ScenarioRequest& request);

/// Returns what the activations of a request depend on.
ActivationShape activation_shape(const ScenarioRequest& request);

/// Counts the memory of a request that has a shape and a placement.
MemoryReport scenario_memory(const ScenarioRequest& request);

}  // namespace verify
