#include "verify/replay/replay_summary.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

#include "verify/output/output.h"
#include "verify/output/phrases.h"

namespace verify {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::verified:
      return "verified";
    case Verdict::falsified:
      return "falsified";
    case Verdict::refused:
      return "refused";
    case Verdict::broken:
      return "broken";
  }
  return "";
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::verified:
      return kVerified;
    case Verdict::falsified:
      return kFalsified;
    case Verdict::refused:
      return kRefused;
    case Verdict::broken:
      return kBroken;
  }
  return kRefused;
}

std::size_t count_of(const std::vector<ScenarioReport>& reports, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(reports.begin(), reports.end(),
                    [&](const ScenarioReport& report) { return report.verdict() == verdict; }));
}

Verdict overall(const std::vector<ScenarioReport>& reports) {
  if (count_of(reports, Verdict::falsified) > 0) return Verdict::falsified;
  if (count_of(reports, Verdict::broken) > 0) return Verdict::broken;
  return count_of(reports, Verdict::refused) > 0 ? Verdict::refused : Verdict::verified;
}

std::string summary_line(const std::vector<ScenarioReport>& reports) {
  std::int64_t checks = 0;
  std::int64_t warnings = 0;
  for (const ScenarioReport& report : reports) {
    checks += std::ssize(report.checks);
    warnings += std::ssize(report.warnings);
  }
  return fmt::format("{}: {}, {}; {} verified, {} falsified, {} broken, {} refused, {}",
                     verdict_name(overall(reports)), counted(std::ssize(reports), "scenario"),
                     counted(checks, "check"), count_of(reports, Verdict::verified),
                     count_of(reports, Verdict::falsified), count_of(reports, Verdict::broken),
                     count_of(reports, Verdict::refused), counted(warnings, "warning"));
}

}  // namespace verify
