#pragma once

/// check on a backend (backend.h): cases with settings that are drawn for its number of ranks run there and
/// among virtual ranks, and are held against each other. That the layers are right is what check proves
/// without a backend.
///
/// Shapes  as many ranks as processes; of one process, up to max-world. Settings are not shrunk: all
///         processes would have to fail alike.
/// Calls   every process makes the same ones.
/// Errors  nothing_to_check, option_without_effect; those of case_request.h, open_backend.h and backend.h.
/// Exact   the same seed draws the same settings; a run of a case is a function of (seed, case, number of the
///         run).

#include "verify/backends/backend.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/program/commands.h"

namespace verify {

/// Runs of a case unless runs says otherwise.
inline constexpr int kBackendRuns = 10;

/// Of run `number`.
CaseSetting drawn_for_backend(const Case& the_case, const std::vector<sim::DType>& dtypes, std::uint64_t seed,
                              std::int64_t number, const Backend& backend, int max_world);

int check_on_backend(const Call& call, const CaseList& cases, const std::string& called);

}  // namespace verify
