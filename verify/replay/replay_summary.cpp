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
    case Verdict::suspect:
      return "suspect";
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
    case Verdict::suspect:
      return kSuspect;
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
  if (count_of(reports, Verdict::refused) > 0) return Verdict::refused;
  return count_of(reports, Verdict::suspect) > 0 ? Verdict::suspect : Verdict::verified;
}

std::string summary_line(const std::vector<ScenarioReport>& reports) {
  std::int64_t checks = 0;
  std::int64_t warnings = 0;
  for (const ScenarioReport& report : reports) {
    checks += std::ssize(report.checks);
    warnings += std::ssize(report.warnings);
  }
  const std::size_t suspect = count_of(reports, Verdict::suspect);
  return fmt::format("{}: {}, {}; {} verified, {} falsified, {} broken, {} refused, {}{}",
                     verdict_name(overall(reports)), counted(std::ssize(reports), "scenario"),
                     counted(checks, "check"), count_of(reports, Verdict::verified),
                     count_of(reports, Verdict::falsified), count_of(reports, Verdict::broken),
                     count_of(reports, Verdict::refused),
                     suspect == 0 ? "" : fmt::format("{} suspect, ", suspect), counted(warnings, "warning"));
}

}  // namespace verify
