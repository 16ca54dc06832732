#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "sim/base/error.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case_list.h"
#include "verify/output/progress.h"
#include "verify/program/catalogue_report.h"
#include "verify/program/commands.h"
#include "verify/program/exam_report.h"
#include "verify/program/interrupt.h"
#include "verify/program/power_report.h"
#include "verify/properties/over_benches.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

void require_fault_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const FaultInfo& fault : fault_table()) known.emplace_back(fault.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    sim::refuse({.code = "unknown_fault",
                 .option = "--fault",
                 .numbers = fmt::format("'{}'", name),
                 .rule = fmt::format("the faults are {}", fmt::join(known, ", ")),
                 .hint = nearest.empty() ? "shardproof list" : "--fault " + nearest});
  }
}

}  // namespace

int exam_cases(const Call& call, const CaseList& cases, const std::vector<std::string>& catalogue) {
  const CommandLine& line = call.line;
  const CaseOptions options = case_options(line.settings);
  require_fault_names(options.faults);
  const bool asks_for_power = line.settings.flag("power"), asks_for_bugs = line.settings.flag("catalogue");
  if (asks_for_power && (asks_for_bugs || !options.faults.empty())) {
    sim::refuse({.code = "option_without_effect",
                 .option = asks_for_bugs ? "--catalogue" : "--fault",
                 .numbers = "it is given beside --power",
                 .rule = "--power plants factors of 1 + 2^-k, and nothing else",
                 .hint = "one of the two options"});
  }
  if (asks_for_bugs) return exam_catalogue(call, cases, line.scenarios.empty() ? catalogue : line.scenarios);
  if (!line.scenarios.empty()) {
    sim::refuse({.code = "one_scenario",
                 .option = line.scenarios[0],
                 .numbers = "a file is given",
                 .rule = "'exam' draws its own settings, and takes files with --catalogue alone",
                 .hint = call.called + " exam --catalogue " + line.scenarios[0]});
  }
  if (asks_for_power) return exam_power(call, cases);
  const CampaignRequest campaign = requested_campaign(options, cases);
  const ExamRequest request{.cases = campaign.cases,
                            .faults = options.faults,
                            .seed = campaign.seed,
                            .max_world = campaign.max_world};
  std::vector<Bench> benches(benches_for(options.threads));
  const InterruptKept interrupt;
  std::optional<Progress> progress;
  const Exam exam =
      run_exam(request, benches, [&](std::size_t done, std::size_t total, const std::string& what) {
        if (!progress) progress.emplace(call.output.err, call.output.progress, total, "faults");
        progress->step(done, what);
        return !interrupt.is_asked();
      });
  progress.reset();
  write_exam(request, exam, asks_for_json(line), call.called, call.output);
  return exit_code_of(exam);
}

int run_exam(const Call& call) { return exam_cases(call, all_cases(), catalogue_files()); }

}  // namespace verify
