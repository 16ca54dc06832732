#include "verify/replay/scenario_report.h"

#include <algorithm>

namespace verify {

Verdict ScenarioReport::verdict() const {
  if (refusal) return Verdict::refused;
  const bool expected =
      std::any_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.check == "finding"; });
  if (!findings.empty() && !expected) return Verdict::broken;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  return all_hold ? Verdict::verified : Verdict::falsified;
}

}  // namespace verify
