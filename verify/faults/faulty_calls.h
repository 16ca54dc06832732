#pragma once

/// Plants faults in the calls of a rank program, which is not changed: the program gets communicators that do
/// something else at the calls that have a fault, and are the real ones at all others.
///
/// Calls   The world sees and judges the calls that are really made. A fault that makes the ranks of a group
///         disagree, or wait for each other, is therefore a finding like that of any wrong program. Of
///         several faults, each is planted in the calls that the one before it in the list makes. The groups
///         that split() makes have no faults. A result that a fault leaves unwritten is poison (NaN, and in
///         the field no number), unless the operation works in place.
/// Exact   The same faults change the same calls in every schedule and with any number of threads.

#include <vector>

#include "sim/comm/rank.h"
#include "sim/world/simulate.h"
#include "verify/faults/fault.h"

namespace verify {

/// Returns the faults as with_faults() takes them for a run of the program in this world. If one makes a call
/// early, the program runs without faults first.
std::vector<Fault> with_calls_before(std::vector<Fault> faults, const sim::WorldSpec& spec,
                                     sim::Device& device, const sim::RankProgram& program);

/// Returns the program with the faults of its calls. Faults of kernels are left to faulty_device.h.
sim::RankProgram with_faults(sim::RankProgram program, const std::vector<Fault>& faults);

}  // namespace verify
