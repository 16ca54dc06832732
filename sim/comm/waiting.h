#pragma once

/// What a rank that is a process owes of waiting: it waits for its own calls while its program runs, and for
/// all that it started.
///
/// Errors  wrong_rank, pending_work.

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"

namespace sim {

/// `device`: of the rank that made the call.
void check_waits_for_own(const Call& call, const Device* device);

/// When the program is over.
void check_all_waited(const Recorder& recorder);

}  // namespace sim
