#pragma once

/// Replays one setting of one case, as the command check wrote it into a scenario, with the faults that are
/// planted there. The setting is judged again, and a failure is explained.
///
/// Errors  those of case_request.h.

#include <optional>

#include "sim/world/finding.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/checks/check_result.h"
#include "verify/faults/fault.h"
#include "verify/requests/case_options.h"

namespace verify {

/// The row "case", and the contract that a rank program broke, if that is why it does not hold.
struct CaseReplay {
  CheckResult row;
  std::optional<sim::Finding> finding = std::nullopt;
};

CaseReplay replay_case(const CaseOptions& options, const std::vector<Fault>& faults, const CaseList& cases);

}  // namespace verify
