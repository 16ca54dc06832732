#pragma once

/// Faults of published tensors (fault.h), which are planted in the report of a run: the program computes what
/// it should, and what it published is another tensor.
///
/// Exact   the run hash stays that of the program.

#include <vector>

#include "sim/world/simulate.h"
#include "verify/faults/fault.h"

namespace verify {

/// Plants the faults of published tensors. The others are left to faulty_calls.h and faulty_device.h.
/// `device` has the field of the run.
void plant_in_tensors(sim::RunReport& report, const std::vector<Fault>& faults, sim::Device& device);

}  // namespace verify
