#pragma once

/// The command check on a backend (backend.h). Cases run with settings drawn for the number of ranks of the
/// backend. Each runs on virtual ranks, where the properties that one run can show must hold
/// (required_properties()). Then it runs on the backend, and the two results are compared. check without a
/// backend proves all properties over many more settings.
///
/// Shapes  The world has as many ranks as there are processes; in one process it has up to max-world ranks.
///         Settings are not shrunk, because all processes would have to fail in the same way.
/// Calls   Every process makes the same calls.
/// Errors  one_process: ranks are processes, and there is only one, which proves nothing about a parallel
///         layer; nothing_to_check: no dtype is left that the backend can judge; option_without_effect: an
///         option that check does not read on this backend; those of backend_choice.h, case_request.h,
///         backend.h.
/// Exact   The same seed draws the same settings: the setting of a run is a function of (seed, case,
///         number of the run) and the number of ranks.

#include "verify/backends/backend.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/program/commands.h"
#include "verify/requests/backend_choice.h"

namespace verify {

/// The number of runs of a case if --runs is not given.
inline constexpr int kBackendRuns = 10;

/// Returns the setting that is drawn for run `number` of a case.
CaseSetting drawn_for_backend(const Case& the_case, const std::vector<sim::DType>& dtypes, std::uint64_t seed,
                              std::int64_t number, const Backend& backend, int max_world);

/// Returns a hash of what has to be the same on every process.
std::uint64_t configuration_of(const CommandLine& line, const CaseList& cases);

/// Refuses a world of one process. `rule` says why it is none; the hint is a call with several processes,
/// after which `otherwise` stands.
void require_several_processes(const BackendChoice& choice, const std::string& called, const char* rule,
                               const std::string& otherwise = "");

/// The command check on the backend that the command line asks for.
int check_on_backend(const Call& call, const CaseList& cases);

}  // namespace verify
