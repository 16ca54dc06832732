#pragma once

/// What is said of a run of a program: the verdict first, then what was found, the calls by kind of group,
/// and what the verdict is about.

#include <string>

#include "verify/output/json.h"
#include "verify/run/guest_run.h"

namespace verify {

/// "2 ranks made 8 calls; all ranks ended, and the calls of every group agree", or "2 ranks made no calls;
/// nothing was checked".
std::string sentence_of_calls(const GuestRequest& request, const GuestRun& run);

std::string guest_run_text(const GuestRequest& request, const GuestRun& run);
/// verdict; program; ranks; calls; findings; warnings; ledger, a row for each kind of groups, site, operation
/// and dtype; ended, by rank; unmet_faults; run_hash; schedule_hash; reproduce.
Json guest_run_json(const GuestRequest& request, const GuestRun& run);

}  // namespace verify
