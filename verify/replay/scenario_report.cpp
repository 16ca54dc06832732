#include "verify/replay/scenario_report.h"

#include <algorithm>

#include "sim/layout/consumer_traps.h"

namespace verify {

Verdict ScenarioReport::verdict() const {
  if (refusal) return Verdict::refused;
  if (!findings.empty() && !has_row("finding")) return Verdict::broken;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  if (!all_hold) return Verdict::falsified;
  const bool is_suspect = std::any_of(warnings.begin(), warnings.end(), sim::is_consumer_trap);
  return is_suspect && !has_row("suspect") ? Verdict::suspect : Verdict::verified;
}

bool ScenarioReport::has_row(const std::string& check) const {
  return std::any_of(checks.begin(), checks.end(), [&](const CheckResult& c) { return c.check == check; });
}

}  // namespace verify
