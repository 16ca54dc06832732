#pragma once

/// One setting of one case, as check wrote it: judged once more, and explained where it fails.
///
/// Errors  those of case_request.h.

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/checks/check_result.h"
#include "verify/options/case_options.h"

namespace verify {

/// The row "case".
CheckResult replay_case(const CaseOptions& options, const CaseList& cases);

}  // namespace verify
