#pragma once

/// Checks for backends in which each rank is a process: a rank waits only for its own calls, only while its
/// program runs, and it waits for every call that it started.
///
/// Errors  wrong_rank, pending_work.

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"

namespace sim {

/// Refuses the wait for a call unless the program of the rank that made it runs. `device` is that rank's.
void require_waits_for_own(const Call& call, const Device* device);

/// Refuses calls that were started and not waited for. It is called when the program is over.
void require_all_waited(const Recorder& recorder);

}  // namespace sim
