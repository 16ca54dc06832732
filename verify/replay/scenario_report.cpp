#include "verify/replay/scenario_report.h"

#include <algorithm>

#include "sim/layout/consumer_traps.h"

namespace verify {

Verdict ScenarioReport::verdict() const {
  if (refusal) return Verdict::refused;
  const bool expected =
      std::any_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.check == "finding"; });
  if (!findings.empty() && !expected) return Verdict::broken;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  if (!all_hold) return Verdict::falsified;
  const bool is_suspect = std::any_of(warnings.begin(), warnings.end(), sim::is_consumer_trap);
  return is_suspect ? Verdict::suspect : Verdict::verified;
}

}  // namespace verify
